"""Optimal transport between Gaussians, in closed form (Gelbrich 1990; Agueh and Carlier 2011).

All matrices are symmetric and positive semi-definite, float64, and may be stacked: (..., d, d).
"""

from __future__ import annotations

import torch

__all__ = ["compute_barycenter", "compute_squared_bures", "matrix_power", "compute_transport"]

EIGENVALUE_FLOOR = 1e-12
"""Eigenvalues under this share of the largest count as zero."""


def matrix_power(C: torch.Tensor, exponent: float) -> torch.Tensor:
    """C to a real power on its range; a negative power is a pseudo-inverse."""
    return _matrix_powers(C, exponent)[0]


def _matrix_powers(C: torch.Tensor, *exponents: float) -> list[torch.Tensor]:
    """Several powers for the price of one: the eigenvalues are what takes the time."""
    values, vectors = torch.linalg.eigh(C)
    counted = values > EIGENVALUE_FLOOR * values[..., -1:].clamp(min=torch.finfo(C.dtype).tiny)
    powered = (torch.where(counted, values.where(counted, 1.0) ** exponent, 0.0) for exponent in exponents)
    return [torch.matmul(vectors * its[..., None, :], vectors.mT) for its in powered]


def compute_squared_bures(A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
    """The squared Bures distance tr A + tr B - 2 tr (A^1/2 B A^1/2)^1/2."""
    cross: torch.Tensor = torch.linalg.svdvals(matrix_power(A, 0.5) @ matrix_power(B, 0.5)).sum(-1)
    return _compute_trace(A) + _compute_trace(B) - 2 * cross


def compute_transport(C: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
    """The symmetric A with A C A = B: for rows, x -> x A carries N(0, C) to N(0, B) with least displacement."""
    return _compute_transport_to_root(C, matrix_power(B, 0.5))


def compute_barycenter(
    C: torch.Tensor, weights: torch.Tensor, *, tolerance: float = 1e-10, steps: int = 500
) -> torch.Tensor:
    """The covariance B that minimizes sum_k p_k bures(C_k, B), by the fixed point of Alvarez-Esteban et al. (2016).

    Each step maps B to T B T with T = sum_k p_k transport(B, C_k); at the optimum T is the identity. Two classes meet
    on the straight way from the one to the other (McCann 1997): from there the first step is the last.
    """
    p = (weights / weights.sum())[:, None, None]
    B, roots = (p * C).sum(0), matrix_power(C, 0.5)
    if len(C) == 2:
        half = C[0] @ compute_transport(C[0], C[1])
        B = p[0] ** 2 * C[0] + p[1] ** 2 * C[1] + p[0] * p[1] * (half + half.mT)
    for _ in range(steps):
        T = (p * _compute_transport_to_root(B, roots)).sum(0)
        following = T @ B @ T
        following = (following + following.mT) / 2
        moved = torch.linalg.matrix_norm(following - B) / torch.linalg.matrix_norm(B).clamp(min=1e-300)
        B = following
        if moved < tolerance:
            break
    return B


def _compute_transport_to_root(C: torch.Tensor, aim: torch.Tensor) -> torch.Tensor:
    """C^-1/2 (C^1/2 B C^1/2)^1/2 C^-1/2, given C and B^1/2.

    By the singular values of C^1/2 B^1/2: squared, as eigenvalues, the small ones would drown in rounding.
    """
    root, inverse = _matrix_powers(C, 0.5, -0.5)
    U, values, _ = torch.linalg.svd(root @ aim)
    half = inverse @ U
    return torch.matmul(half * values[..., None, :], half.mT)


def _compute_trace(C: torch.Tensor) -> torch.Tensor:
    return C.diagonal(dim1=-2, dim2=-1).sum(-1)
