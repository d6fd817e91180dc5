"""Mean and covariance of the bulk of each class: maximum likelihood of a multivariate t, by reweighting.

Sample moments are sensitive to outliers. A map that equalizes them stretches all rows of a class because of a few, and
an attacker who looks at the many sees the stretch, even where there was nothing to hide. Here a row at squared
Mahalanobis distance r^2 has the weight (nu + d) / (nu + r^2), the EM step for a multivariate t with nu degrees of
freedom (Lange, Little and Taylor 1989). nu follows from the kurtosis of the table: about 4 for heavy tails, and
infinite, which gives sample moments, for normal users. Like sample moments these are affinely equivariant, so maps
between them are exact.
"""

from __future__ import annotations

import math

import torch

from recveil.transport.moments import Moments

__all__ = ["MIN_ROWS_PER_DIMENSION", "fit_bulk_moments"]

N_STEPS = 10
"""Reweighting steps."""

RIDGE_SHARE = 1e-12
"""Share of the largest variance added to every direction, so that directions without variance can be inverted."""

MIN_ROWS_PER_DIMENSION = 4
"""Rows for each dimension above which moments are reweighted. Of fewer rows all are about equally far from the mean in
their own covariance, and the weights diverge.
"""


def fit_bulk_moments(x: torch.Tensor, codes: torch.Tensor, n_classes: int, *, max_rows: int) -> Moments:
    """Fit the moments of the bulk of each class.

    All classes are measured alike, since a map from the bulk of one class to the whole of another would move them
    apart: sample moments are used if a class has too few rows to reweight, or if all have more than `max_rows`, where
    outliers average out. Classes of no more rows than dimensions have no covariance of their own and do not count.

    Args:
        x: (n, d) rows.
        codes: (n,) class of each row.
        n_classes: number of classes.
        max_rows: rows above which outliers average out.

    Returns:
        The moments.
    """
    plain, d = Moments.from_rows(x, codes, n_classes), x.shape[1]
    sizes = plain.n[plain.n > d]
    if not len(sizes) or sizes.min() <= MIN_ROWS_PER_DIMENSION * d or sizes.min() > max_rows:
        return plain
    degrees_of_freedom = _estimate_degrees_of_freedom(x, codes, plain)
    if degrees_of_freedom == math.inf:
        return plain
    mean, scatter = plain.mean.clone(), plain.scatter.clone()
    for k in (plain.n > d).nonzero()[:, 0].tolist():
        mean[k], scatter[k] = _fit_t_moments(x[codes == k].double(), mean[k], scatter[k], degrees_of_freedom)
    return Moments(plain.n, mean, scatter)


def _estimate_degrees_of_freedom(x: torch.Tensor, codes: torch.Tensor, moments: Moments) -> float:
    """Estimate nu of the multivariate t whose rows are as far out as those of the table.

    The kurtosis E r^4 / (d (d + 2)) of a multivariate t is (nu - 2) / (nu - 4), and 1 if nu is infinite. Distances are
    measured in the covariance within classes, from the mean of the class.
    """
    known = codes >= 0
    within = moments.scatter.sum(0) / moments.n.sum()
    squared = _compute_squared_mahalanobis((x[known] - moments.mean[codes[known]]).double(), within)
    kurtosis = float(squared.square().mean() / squared.mean().square()) * x.shape[1] / (x.shape[1] + 2)
    return 4 + 2 / (kurtosis - 1) if kurtosis > 1 else math.inf


def _fit_t_moments(
    x: torch.Tensor, mean: torch.Tensor, scatter: torch.Tensor, degrees_of_freedom: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Reweight mean and scatter for a fixed number of steps."""
    n, d = x.shape
    z = x - mean
    for _ in range(N_STEPS):
        weight = (degrees_of_freedom + d) / (degrees_of_freedom + _compute_squared_mahalanobis(z, scatter / n))
        mean = (weight * x).sum(0) / weight.sum()
        z = x - mean
        scatter = (weight * z).mT @ z
    return mean, scatter


def _compute_squared_mahalanobis(z: torch.Tensor, covariance: torch.Tensor) -> torch.Tensor:
    """Compute z' C^-1 z for each row, (n, 1).

    By a Cholesky factor: on a GPU eigenvalues would take most of the time.
    """
    ridge = (RIDGE_SHARE * covariance.diagonal().max()).clamp(min=torch.finfo(z.dtype).tiny)
    root, _ = torch.linalg.cholesky_ex(covariance + ridge * torch.eye(len(covariance), dtype=z.dtype, device=z.device))
    whitened: torch.Tensor = torch.linalg.solve_triangular(root, z.mT, upper=False)
    return whitened.square().sum(0)[:, None]
