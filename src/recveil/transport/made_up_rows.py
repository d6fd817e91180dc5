"""Rows of made-up users, who resemble those of a table and tell nothing of any one of them.

A reference for what chance gives must not be made of the users that it is a reference for. The moments of permuted
labels are: a user's own row is part of them, and classes that get these moments have neighbors of another class more
often than by chance (research/notes/sliced.md). For Gaussian users the moments of a sample are independent of all else
about it, so that classes with the moments of other, independent samples are themselves samples of one distribution.
"""

from __future__ import annotations

import torch

from recveil.transport.moments import Moments

__all__ = ["draw_made_up_rows"]

MIN_VARIANCE_SHARE = 1e-12
"""Directions with less than this share of the largest variance have no made-up rows."""


def draw_made_up_rows(x: torch.Tensor, moments: Moments, draws: torch.Generator) -> torch.Tensor:
    """Draw as many rows as there are, around the same mean, as far from it, in random directions.

    Distances are measured in standard deviations (Mahalanobis), so that tails are as heavy as those of the table.

    Args:
        x: (n, d) rows in double precision.
        moments: mean and covariance of all rows together, as one class.
        draws: source of randomness, on the device of the rows.
    """
    values, axes = torch.linalg.eigh(moments.covariance[0])
    kept = values > MIN_VARIANCE_SHARE * values[-1].clamp(min=torch.finfo(x.dtype).tiny)
    axes, spread = axes[:, kept], values[kept].sqrt()
    lengths = torch.linalg.vector_norm((x - moments.mean) @ axes / spread, dim=1)
    lengths = lengths[torch.randperm(len(x), generator=draws, device=x.device)]
    z = torch.randn((len(x), int(kept.sum())), generator=draws, dtype=x.dtype, device=x.device)
    z *= (lengths / torch.linalg.vector_norm(z, dim=1).clamp(min=torch.finfo(x.dtype).tiny))[:, None]
    rows: torch.Tensor = z @ (axes * spread).mT + moments.mean
    return rows
