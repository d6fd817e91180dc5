"""Products with a fixed sparse matrix on any device, differentiable in the other factor."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch.nn import functional

__all__ = ["SparseMatrix", "multiply_sparse"]


class SparseMatrix:
    """A fixed sparse matrix on the device, ready to be multiplied from both sides.

    CUDA has a fast product for it, whose sums may come out in another order each time. Where that must not be (see
    `repeatable`), and on the CPU, where torch's own product is several times slower, bags of rows are summed.
    """

    def __init__(self, values: sparse.csr_array, device: torch.device) -> None:
        self.shape: tuple[int, int] = values.shape
        self.sides = tuple(_move_to_device(sparse.csr_array(part), device) for part in (values, values.T))

    def multiply(self, x: torch.Tensor, *, turned: bool = False) -> torch.Tensor:
        """The matrix (or, turned, its transpose) times x."""
        side = self.sides[int(turned)]
        if x.is_cuda and not torch.are_deterministic_algorithms_enabled():
            return side @ x
        start, index, weight = side.crow_indices()[:-1], side.col_indices(), side.values()
        return functional.embedding_bag(index, x, start, mode="sum", per_sample_weights=weight)


def _move_to_device(values: sparse.csr_array, device: torch.device) -> torch.Tensor:
    start, index = (torch.as_tensor(a.astype(np.int32), device=device) for a in (values.indptr, values.indices))
    weight = torch.as_tensor(values.data.astype(np.float32), device=device)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch calls this layout a beta on every first use
        return torch.sparse_csr_tensor(start, index, weight, size=values.shape, check_invariants=True)


class _SparseProduct(torch.autograd.Function):
    """Multiplication by a fixed matrix: its gradient is multiplication by the transpose."""

    @staticmethod
    def forward(ctx: Any, *given: Any) -> torch.Tensor:
        x, matrix, turned = given
        ctx.matrix, ctx.turned = matrix, turned
        result: torch.Tensor = matrix.multiply(x, turned=turned)
        return result

    @staticmethod
    def backward(ctx: Any, *outer: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        return ctx.matrix.multiply(outer[0].contiguous(), turned=not ctx.turned), None, None


def multiply_sparse(matrix: SparseMatrix, x: torch.Tensor, *, turned: bool = False) -> torch.Tensor:
    """The matrix (or, turned, its transpose) times x, differentiable in x."""
    result: torch.Tensor = _SparseProduct.apply(x, matrix, turned)  # type: ignore[no-untyped-call]
    return result
