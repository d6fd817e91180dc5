"""Mean and covariance of the bulk of each class: maximum likelihood of a multivariate t, by reweighting.

Sample moments are sensitive to outliers. A map that equalizes them stretches all rows of a class because of a few, and
an attacker who looks at the many sees the stretch, even where there was nothing to hide. Here a row at squared
Mahalanobis distance r^2 has the weight (nu + d) / (nu + r^2), the EM step for a multivariate t with nu degrees of
freedom (Lange, Little and Taylor 1989). Like sample moments these are affinely equivariant, so maps between them are
exact.
"""

from __future__ import annotations

import torch

from recveil.transport.moments import Moments

__all__ = ["fit_bulk_moments"]

DEGREES_OF_FREEDOM = 4.0
"""nu of the multivariate t; infinity gives sample moments. Results with 1, 4 and 20 differed little."""

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

    Sample moments are used for a class with too few rows to reweight, or with more than `max_rows`: with many rows
    outliers average out.

    Args:
        x: (n, d) rows.
        codes: (n,) class of each row.
        n_classes: number of classes.
        max_rows: most rows of a class that is reweighted.

    Returns:
        The moments.
    """
    plain = Moments.from_rows(x, codes, n_classes)
    mean, scatter = plain.mean.clone(), plain.scatter.clone()
    for k in range(n_classes):
        if MIN_ROWS_PER_DIMENSION * x.shape[1] < plain.n[k] <= max_rows:
            mean[k], scatter[k] = _fit_t_moments(x[codes == k].double(), mean[k], scatter[k])
    return Moments(plain.n, mean, scatter)


def _fit_t_moments(x: torch.Tensor, mean: torch.Tensor, scatter: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Reweight mean and scatter for a fixed number of steps."""
    n, d = x.shape
    z = x - mean
    for _ in range(N_STEPS):
        weight = (DEGREES_OF_FREEDOM + d) / (DEGREES_OF_FREEDOM + _compute_squared_mahalanobis(z, scatter / n))
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
