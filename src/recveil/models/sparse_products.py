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
    """A fixed sparse matrix on the device, with its transpose.

    CUDA has a fast product whose sums may be added in another order each time. Where results must repeat exactly, and
    on the CPU, where torch's own product is several times slower, the product is computed as sums of bags of rows.
    """

    def __init__(self, values: sparse.csr_array, device: torch.device) -> None:
        self.shape: tuple[int, int] = values.shape
        self.sides = tuple(_move_to_device(sparse.csr_array(part), device) for part in (values, values.T))

    def multiply(self, x: torch.Tensor, *, transposed: bool = False) -> torch.Tensor:
        """Multiply the matrix, or its transpose, by x."""
        side = self.sides[int(transposed)]
        if x.is_cuda and not torch.are_deterministic_algorithms_enabled():
            return side @ x
        start, index, weight = side.crow_indices()[:-1], side.col_indices(), side.values()
        return functional.embedding_bag(index, x, start, mode="sum", per_sample_weights=weight)


def _move_to_device(values: sparse.csr_array, device: torch.device) -> torch.Tensor:
    start, index = (torch.as_tensor(a.astype(np.int32), device=device) for a in (values.indptr, values.indices))
    weight = torch.as_tensor(values.data.astype(np.float32), device=device)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns on first use that this layout is in beta
        return torch.sparse_csr_tensor(start, index, weight, size=values.shape, check_invariants=True)


class _SparseProduct(torch.autograd.Function):
    """Product with a fixed matrix; its gradient is a product with the transpose."""

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> torch.Tensor:
        x, matrix, transposed = arguments
        ctx.matrix, ctx.transposed = matrix, transposed
        result: torch.Tensor = matrix.multiply(x, transposed=transposed)
        return result

    @staticmethod
    def backward(ctx: Any, *outer: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        return ctx.matrix.multiply(outer[0].contiguous(), transposed=not ctx.transposed), None, None


def multiply_sparse(matrix: SparseMatrix, x: torch.Tensor, *, transposed: bool = False) -> torch.Tensor:
    """Multiply the matrix, or its transpose, by x, differentiable in x.

    Args:
        matrix: the fixed factor.
        x: the other factor.
        transposed: multiply by the transpose.
    """
    result: torch.Tensor = _SparseProduct.apply(x, matrix, transposed)  # type: ignore[no-untyped-call]
    return result
