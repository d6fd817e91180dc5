"""How far classes of vectors stand apart, read through Gaussians: sum_k p_k KL(N(m_k, C_k) || N(m, C)).

The whole holds the same rows as its classes, so C = sum_k p_k (C_k + (m_k - m)(m_k - m)'): the trace and the quadratic
term of the long formula add up to d, and what is left is 0.5 (logdet C - sum_k p_k logdet C_k). Its gradient needs no
automatic differentiation: for a row x of class k it is (P (x - m) - P_k (x - m_k)) / n with P, P_k the inverses.

Both stay exact if one constant eps is added to every variance, which classes with fewer rows than dimensions need; an
eps of each class's own would break them. For rows that are not Gaussian the number is a proxy of the mutual information
between vector and class; it is neither that nor a bound of it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from recveil.transport.moments import Moments

__all__ = ["ClassRows", "DivergenceFit", "compute_divergence", "compute_gradient", "long_divergence", "choose_ridge"]

Rows = slice | torch.Tensor


@dataclass(frozen=True, eq=False)
class ClassRows:
    """Which rows belong to which class; classes whose rows lie together are read without a copy."""

    rows: list[Rows]
    n: torch.Tensor  # (K,) rows of each class

    @classmethod
    def from_codes(cls, codes: torch.Tensor) -> ClassRows:
        """The classes that have rows, in the order of their codes; rows with a negative code belong to none."""
        every = [(codes == k).nonzero()[:, 0] for k in torch.unique(codes[codes >= 0]).tolist()]
        n = torch.tensor([len(rows) for rows in every], dtype=torch.float64, device=codes.device)
        return cls([_compress_rows(rows) for rows in every], n)

    def compute_moments(self, x: torch.Tensor) -> Moments:
        """The moments of these rows of x."""
        parts = [x[rows] for rows in self.rows]
        mean = torch.stack([part.mean(0) for part in parts])
        centered = [part - m for part, m in zip(parts, mean, strict=True)]
        return Moments(self.n, mean, torch.stack([part.mT @ part for part in centered]))


@dataclass(frozen=True, eq=False)
class DivergenceFit:
    """How far the classes stand apart, and the Gaussians of the K classes and of the whole (last)."""

    value: torch.Tensor  # ()
    mean: torch.Tensor  # (K + 1, d)
    precision: torch.Tensor  # (K + 1, d, d)


def choose_ridge(x: torch.Tensor, share: float) -> float:
    """The eps to take, share * tr(C) / d of these rows: one constant for every class and every step.

    Where no row differs from another there is no scale to take a share of; then eps is the share itself.
    """
    return share * (float(x.var(0, correction=0).mean()) or 1.0)


def compute_divergence(moments: Moments, eps: float) -> DivergenceFit:
    """The divergence of the classes from their whole by the short form, with the inverses its gradient needs."""
    p, C_k = moments.weights, moments.covariance
    m = p @ moments.mean
    apart = moments.mean - m
    C = (p @ C_k.flatten(1)).view_as(C_k[0]) + (p[:, None] * apart).mT @ apart
    every = torch.cat([C_k, C[None]])
    every.diagonal(dim1=-2, dim2=-1).add_(eps)
    factor = torch.linalg.cholesky(every)
    logdet = 2 * factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    value = (logdet[-1] - p @ logdet[:-1]) / 2
    return DivergenceFit(value, torch.cat([moments.mean, m[None]]), torch.cholesky_inverse(factor))


def compute_gradient(x: torch.Tensor, classes: ClassRows, fit: DivergenceFit) -> torch.Tensor:
    """The derivative of the divergence by each row; zero for rows that belong to no class."""
    out = torch.zeros_like(x)
    pull = (fit.mean[:, None] @ fit.precision)[:, 0]
    slope = (fit.precision[-1] - fit.precision[:-1]) / classes.n.sum()
    offset = (pull[:-1] - pull[-1]) / classes.n.sum()
    for rows, a, b in zip(classes.rows, slope, offset, strict=True):
        if isinstance(rows, slice):  # into its place, without a table in between
            torch.addmm(b, x[rows], a, out=out[rows])
        else:
            out[rows] = torch.addmm(b, x[rows], a)
    return out


def long_divergence(x: torch.Tensor, classes: ClassRows, eps: float) -> torch.Tensor:
    """The same number by the formula of AttrCloak's slides, term by term: for tests, and the speed to beat."""
    parts = [x[rows] for rows in classes.rows]
    m, C = _gaussian(torch.cat(parts), eps)
    total = x.new_zeros(())
    for p, part in zip(classes.n / classes.n.sum(), parts, strict=True):
        m_k, C_k = _gaussian(part, eps)
        trace = torch.trace(torch.linalg.solve(C, C_k))
        quadratic = (m - m_k) @ torch.linalg.solve(C, m - m_k)
        total = total + p * (torch.logdet(C) - torch.logdet(C_k) - x.shape[1] + trace + quadratic) / 2
    return total


def _gaussian(x: torch.Tensor, eps: float) -> tuple[torch.Tensor, torch.Tensor]:
    mean = x.mean(0)
    return mean, (x - mean).mT @ (x - mean) / len(x) + eps * torch.eye(x.shape[1], dtype=x.dtype, device=x.device)


def _compress_rows(rows: torch.Tensor) -> Rows:
    first, last = int(rows[0]), int(rows[-1]) + 1
    return slice(first, last) if last - first == len(rows) else rows
