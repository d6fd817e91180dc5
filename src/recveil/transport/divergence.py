"""Divergence of classes of vectors, modeled as Gaussians: sum_k p_k KL(N(m_k, C_k) || N(m, C)).

The classes together are the whole, so C = sum_k p_k (C_k + (m_k - m)(m_k - m)'). Hence the trace and the quadratic term
of the KL divergences add up to d, which cancels the -d, and what remains is

    D = 1/2 (logdet C - sum_k p_k logdet C_k).                                          (1)

The gradient by a row x of class k needs no automatic differentiation. With P = C^-1 and P_k = C_k^-1 it is

    dD/dx = (P (x - m) - P_k (x - m_k)) / n.                                            (2)

Both stay exact if one constant eps is added to every variance, which classes with fewer rows than dimensions need; an
eps for each class would break them. If the rows are not Gaussian, D is a proxy of the mutual information between vector
and class, and neither equal to it nor a bound.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from recveil.transport.moments import Moments

__all__ = ["ClassRows", "DivergenceFit", "choose_ridge", "compute_divergence", "compute_gradient"]

Rows = slice | torch.Tensor
"""Rows of a table: a slice without a copy where they are contiguous, else their numbers."""


@dataclass(frozen=True, eq=False)
class ClassRows:
    """Rows of each class.

    Attributes:
        rows: rows of each class; contiguous ones are read without a copy.
        n: (K,) number of rows of each class.
    """

    rows: list[Rows]
    n: torch.Tensor

    @classmethod
    def from_codes(cls, codes: torch.Tensor) -> ClassRows:
        """Collect the classes that have rows, by code.

        Rows with a negative code belong to no class.
        """
        classes = [(codes == k).nonzero()[:, 0] for k in torch.unique(codes[codes >= 0]).tolist()]
        n = torch.tensor([len(rows) for rows in classes], dtype=torch.float64, device=codes.device)
        return cls([_compress_rows(rows) for rows in classes], n)

    def compute_moments(self, x: torch.Tensor) -> Moments:
        """Compute the moments of the classes of a table."""
        parts = [x[rows] for rows in self.rows]
        mean = torch.stack([part.mean(0) for part in parts])
        centered = [part - m for part, m in zip(parts, mean, strict=True)]
        return Moments(self.n, mean, torch.stack([part.mT @ part for part in centered]))


@dataclass(frozen=True, eq=False)
class DivergenceFit:
    """The divergence of the classes, and the Gaussians it was computed from.

    Attributes:
        value: the divergence, a scalar tensor.
        mean: (K + 1, d) means of the classes and of the whole (last).
        precision: (K + 1, d, d) inverse covariances of the classes and of the whole (last).
    """

    value: torch.Tensor
    mean: torch.Tensor
    precision: torch.Tensor


def choose_ridge(x: torch.Tensor, share: float) -> float:
    """Choose eps as a share of the mean variance tr(C) / d.

    It is one constant for every class and every step. If all rows are equal, eps is the share itself.
    """
    return share * (float(x.var(0, correction=0).mean()) or 1.0)


def compute_divergence(moments: Moments, eps: float) -> DivergenceFit:
    """Compute the divergence of the classes from the whole (eq. 1).

    The result holds the inverses that its gradient needs.
    """
    p, C_k = moments.weights, moments.covariance
    m = p @ moments.mean
    apart = moments.mean - m
    # The law of total covariance: within classes plus between them.
    C = (p @ C_k.flatten(1)).view_as(C_k[0]) + (p[:, None] * apart).mT @ apart
    covariances = torch.cat([C_k, C[None]])
    covariances.diagonal(dim1=-2, dim2=-1).add_(eps)
    factor = torch.linalg.cholesky(covariances)
    logdet = 2 * factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    value = (logdet[-1] - p @ logdet[:-1]) / 2  # eq. 1
    return DivergenceFit(value, torch.cat([moments.mean, m[None]]), torch.cholesky_inverse(factor))


def compute_gradient(x: torch.Tensor, classes: ClassRows, fit: DivergenceFit) -> torch.Tensor:
    """Compute the gradient of the divergence by each row (eq. 2).

    It is zero for rows of no class.
    """
    out = torch.zeros_like(x)
    # Eq. 2 is affine in the row: x (P - P_k) + (m_k P_k - m P), all over n.
    projected = (fit.mean[:, None] @ fit.precision)[:, 0]
    slope = (fit.precision[-1] - fit.precision[:-1]) / classes.n.sum()
    offset = (projected[:-1] - projected[-1]) / classes.n.sum()
    for rows, a, b in zip(classes.rows, slope, offset, strict=True):
        if isinstance(rows, slice):  # written in place, without a temporary table
            torch.addmm(b, x[rows], a, out=out[rows])
        else:
            out[rows] = torch.addmm(b, x[rows], a)
    return out


def _compress_rows(rows: torch.Tensor) -> Rows:
    """Return contiguous rows as a slice."""
    first, last = int(rows[0]), int(rows[-1]) + 1
    return slice(first, last) if last - first == len(rows) else rows
