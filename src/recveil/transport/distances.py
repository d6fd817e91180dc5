"""Squared distances between many points and few, in blocks of rows."""

from __future__ import annotations

import torch

__all__ = ["cut_blocks", "compute_squared_distances", "compute_typical_distance"]

BLOCK_NUMBERS = {"cpu": 1 << 20, "cuda": 1 << 26}
"""Entries of a matrix that are processed together, by device: near the size of a cache, and enough to occupy its
threads.
"""

SAMPLE_POINTS = 1024
"""Points whose pairwise distances give the typical distance."""


def cut_blocks(matrix: torch.Tensor) -> list[slice]:
    """Cut the rows of a matrix into blocks that are processed together."""
    n, m = matrix.shape
    size = max(1, BLOCK_NUMBERS.get(matrix.device.type, 1 << 20) // max(1, m))
    return [slice(at, min(at + size, n)) for at in range(0, n, size)]


def compute_squared_distances(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Compute |x_p - y_q|^2 for all rows p of x and q of y, (n, m).

    The result has the precision of x.
    """
    center = y.mean(0)  # centering changes no distance, and keeps |x|^2 - 2 x.y + |y|^2 exact far from zero
    y = y - center
    out = x.new_empty(len(x), len(y))
    lengths = y.square().sum(1)
    for rows in cut_blocks(out):
        z = x[rows] - center
        torch.addmm(z.square().sum(1)[:, None] + lengths, z, y.mT, alpha=-2, out=out[rows])
        out[rows].clamp_(min=0)
    return out


def compute_typical_distance(x: torch.Tensor) -> float:
    """Compute the median squared distance between rows; 1 if all rows are equal.

    Of many rows, evenly spaced ones are used.
    """
    some = x[:: -(-len(x) // SAMPLE_POINTS)]
    median = float(torch.pdist(some - some.mean(0)).square().median()) if len(some) > 1 else 0.0
    return median or 1.0
