"""Rows of made-up users, who resemble those of a table and tell little of any one of them.

A reference for what chance gives must not be made of the users that it is a reference for. The moments of permuted
labels are: a user's own row is part of them, and where users are few for each dimension, classes that get these moments
have neighbors of another class more often than by chance. For Gaussian users the moments of a sample are independent of
all else about it, so that classes with the moments of other, independent samples are themselves samples of one
distribution. Real users have shapes that no simple distribution has; where they are many for each dimension, a row is a
small part of the moments, and permuted labels are the better reference. So each made-up row is a weighted sum of both
(measured in research/notes/sliced.md).
"""

from __future__ import annotations

import torch

from recveil.transport.moments import Moments
from recveil.transport.robust_moments import MIN_ROWS_PER_DIMENSION

__all__ = ["draw_made_up_rows"]

MIN_VARIANCE_SHARE = 1e-12
"""Directions with less than this share of the largest variance have no made-up rows."""


def draw_made_up_rows(
    x: torch.Tensor, moments: Moments, class_sizes: torch.Tensor, draws: torch.Generator
) -> torch.Tensor:
    """Draw as many rows as there are: users in random order, mixed with rows independent of them.

    The share of the variance that is independent is 4 d / n for a class of n users, and all of it below 4 d users,
    which are also too few to measure the moments of their bulk.

    Args:
        x: (n, d) rows in double precision.
        moments: mean and covariance of all rows together, as one class.
        class_sizes: (n,) users of the class that each made-up row is for.
        draws: source of randomness, on the device of the rows.
    """
    share = (MIN_ROWS_PER_DIMENSION * x.shape[1] / class_sizes).clamp(max=1)[:, None]
    users = x[torch.randperm(len(x), generator=draws, device=x.device)] - moments.mean
    rows: torch.Tensor = (1 - share).sqrt() * users + share.sqrt() * _turn_rows(users, moments, draws) + moments.mean
    return rows


def _turn_rows(users: torch.Tensor, moments: Moments, draws: torch.Generator) -> torch.Tensor:
    """Draw rows as far from the mean as users are, in random directions.

    Distances are measured in standard deviations (Mahalanobis), so that tails are as heavy as those of the table.
    """
    values, axes = torch.linalg.eigh(moments.covariance[0])
    kept = values > MIN_VARIANCE_SHARE * values[-1].clamp(min=torch.finfo(users.dtype).tiny)
    axes, spread = axes[:, kept], values[kept].sqrt()
    lengths = torch.linalg.vector_norm(users @ axes / spread, dim=1)
    lengths = lengths[torch.randperm(len(users), generator=draws, device=users.device)]
    z = torch.randn((len(users), int(kept.sum())), generator=draws, dtype=users.dtype, device=users.device)
    z *= (lengths / torch.linalg.vector_norm(z, dim=1).clamp(min=torch.finfo(users.dtype).tiny))[:, None]
    rows: torch.Tensor = z @ (axes * spread).mT
    return rows
