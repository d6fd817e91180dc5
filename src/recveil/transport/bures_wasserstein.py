"""Optimal transport between Gaussians, in closed form (Gelbrich 1990; Agueh and Carlier 2011).

The squared distance of N(0, A) and N(0, B) is the squared Bures distance tr A + tr B - 2 tr (A^1/2 B A^1/2)^1/2.
All matrices are symmetric and positive semi-definite, float64, and may be stacked: (..., d, d).
"""

from __future__ import annotations

import torch

__all__ = ["compute_barycenter", "compute_transport", "matrix_power"]

EIGENVALUE_FLOOR = 1e-12
"""Eigenvalues below this share of the largest count as zero."""


def matrix_power(C: torch.Tensor, exponent: float) -> torch.Tensor:
    """Raise C to a real power on its range; a negative power is a pseudo-inverse."""
    return _matrix_powers(C, exponent)[0]


def _matrix_powers(C: torch.Tensor, *exponents: float) -> list[torch.Tensor]:
    """Compute several powers from one eigendecomposition, which takes the time."""
    values, vectors = torch.linalg.eigh(C)
    nonzero = values > EIGENVALUE_FLOOR * values[..., -1:].clamp(min=torch.finfo(C.dtype).tiny)
    spectra = (torch.where(nonzero, values.where(nonzero, 1.0) ** exponent, 0.0) for exponent in exponents)
    return [torch.matmul(vectors * spectrum[..., None, :], vectors.mT) for spectrum in spectra]


def compute_transport(C: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
    """Compute the symmetric A with A C A = B.

    For rows, x -> x A carries N(0, C) to N(0, B) with the least displacement.
    """
    return _compute_transport_to_root(C, matrix_power(B, 0.5))


def compute_barycenter(
    C: torch.Tensor, weights: torch.Tensor, *, tolerance: float = 1e-10, steps: int = 500
) -> torch.Tensor:
    """Compute the covariance B that minimizes sum_k p_k Bures(C_k, B)^2.

    The fixed point of Alvarez-Esteban et al. (2016): each step maps B to T B T with T = sum_k p_k A_k, where A_k
    carries B to C_k; at the optimum T is the identity. Two classes have a closed form, the point at p_2 on the geodesic
    from the first to the second (McCann 1997); the iteration then stops after one step.

    Args:
        C: (K, d, d) covariances.
        weights: (K,) weights, scaled to sum to 1.
        tolerance: relative change of B to stop at.
        steps: most steps.

    Returns:
        The barycenter, (d, d).
    """
    p = (weights / weights.sum())[:, None, None]
    B, roots = (p * C).sum(0), matrix_power(C, 0.5)
    if len(C) == 2:
        # ((p_1 I + p_2 A) C_1 (p_1 I + p_2 A)) with A C_1 A = C_2, multiplied out.
        half = C[0] @ compute_transport(C[0], C[1])
        B = p[0] ** 2 * C[0] + p[1] ** 2 * C[1] + p[0] * p[1] * (half + half.mT)
    for _ in range(steps):
        T = (p * _compute_transport_to_root(B, roots)).sum(0)
        following = T @ B @ T
        following = (following + following.mT) / 2  # symmetric up to rounding; keep it exactly so
        change = torch.linalg.matrix_norm(following - B) / torch.linalg.matrix_norm(B).clamp(min=1e-300)
        B = following
        if change < tolerance:
            break
    return B


def _compute_transport_to_root(C: torch.Tensor, target_root: torch.Tensor) -> torch.Tensor:
    """Compute C^-1/2 (C^1/2 B C^1/2)^1/2 C^-1/2 from C and B^1/2.

    With the singular value decomposition C^1/2 B^1/2 = U S V' the middle factor is U S U'. Eigenvalues of the product
    would be the squares S^2, whose small values are lost to rounding.
    """
    root, inverse = _matrix_powers(C, 0.5, -0.5)
    U, values, _ = torch.linalg.svd(root @ target_root)
    half = inverse @ U
    return torch.matmul(half * values[..., None, :], half.mT)
