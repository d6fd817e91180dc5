"""Optimal transport between Gaussians, in closed form (Gelbrich 1990; Agueh and Carlier 2011).

All matrices are symmetric and positive semi-definite, float64, and may be stacked: (..., d, d).
"""

from __future__ import annotations

import torch

__all__ = ["barycenter", "bures", "power", "transport"]

FLOOR = 1e-12
"""Eigenvalues under this share of the largest count as zero."""


def power(C: torch.Tensor, exponent: float) -> torch.Tensor:
    """C to a real power on its range; a negative power is a pseudo-inverse."""
    values, vectors = torch.linalg.eigh(C)
    floor = FLOOR * values[..., -1:].clamp(min=torch.finfo(C.dtype).tiny)
    powered = torch.where(values > floor, values.clamp(min=0).where(values > floor, 1.0) ** exponent, 0.0)
    return torch.matmul(vectors * powered[..., None, :], vectors.mT)


def bures(A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
    """The squared Bures distance tr A + tr B - 2 tr (A^1/2 B A^1/2)^1/2."""
    root = power(A, 0.5)
    cross = power(root @ B @ root, 0.5)
    return _trace(A) + _trace(B) - 2 * _trace(cross)


def transport(C: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
    """The symmetric A with A C A = B: for rows, x -> x A carries N(0, C) to N(0, B) with least displacement."""
    root, inverse = power(C, 0.5), power(C, -0.5)
    return inverse @ power(root @ B @ root, 0.5) @ inverse


def barycenter(C: torch.Tensor, weights: torch.Tensor, *, tolerance: float = 1e-10, steps: int = 500) -> torch.Tensor:
    """The covariance B that minimizes sum_k p_k bures(C_k, B), by the fixed point of Alvarez-Esteban et al. (2016).

    Each step maps B to T B T with T = sum_k p_k transport(B, C_k); at the optimum T is the identity.
    """
    p = (weights / weights.sum())[:, None, None]
    B = (p * C).sum(0)
    for _ in range(steps):
        T = (p * transport(B.expand_as(C), C)).sum(0)
        following = T @ B @ T
        following = (following + following.mT) / 2
        moved = torch.linalg.matrix_norm(following - B) / torch.linalg.matrix_norm(B).clamp(min=1e-300)
        B = following
        if moved < tolerance:
            break
    return B


def _trace(C: torch.Tensor) -> torch.Tensor:
    return C.diagonal(dim1=-2, dim2=-1).sum(-1)
