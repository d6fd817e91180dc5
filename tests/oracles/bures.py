"""The squared Bures distance between covariances, the least transport cost between centered Gaussians."""

from __future__ import annotations

import torch

from recveil.transport.bures_wasserstein import matrix_power


def compute_squared_bures(A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
    """Compute tr A + tr B - 2 tr (A^1/2 B A^1/2)^1/2 of stacked matrices.

    The last trace is the sum of the singular values of A^1/2 B^1/2.
    """
    cross: torch.Tensor = torch.linalg.svdvals(matrix_power(A, 0.5) @ matrix_power(B, 0.5)).sum(-1)
    traces = [C.diagonal(dim1=-2, dim2=-1).sum(-1) for C in (A, B)]
    return traces[0] + traces[1] - 2 * cross
