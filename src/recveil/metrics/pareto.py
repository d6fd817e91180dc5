"""Pareto fronts of points (advantage, cost), where less of both is better: front, knee and hypervolume."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from recveil.core.types import IntArray

__all__ = ["REFERENCE_POINT", "find_knee", "hypervolume", "find_pareto_front"]

REFERENCE_POINT = (1.0, 100.0)
"""The worst point that counts: an attacker who is certain, and a ranking without any quality (cost in per cent)."""


def find_pareto_front(points: Sequence[tuple[float, float]]) -> IntArray:
    """Return the indices of undominated points, by rising advantage.

    Of equal points the first one is returned.
    """
    values = np.asarray(points, dtype=np.float64).reshape(-1, 2)
    front, cheapest = [], np.inf
    for i in np.lexsort((np.arange(len(values)), values[:, 1], values[:, 0])):
        if values[i, 1] < cheapest:
            front.append(i)
            cheapest = values[i, 1]
    return np.array(front, dtype=np.int64)


def find_knee(points: Sequence[tuple[float, float]]) -> int:
    """Return the index of the front's point farthest below its chord.

    The chord is the straight line between the ends of the front.

    The ends are the cheapest and the most private point; both coordinates are shares of their range over all points.
    Where several points are equally far below, the first one is returned; where none is below, the most private one.
    """
    values = np.array(points, dtype=np.float64)
    low, span = values.min(0), np.ptp(values, axis=0)
    scaled = (values - low) / np.where(span > 0, span, 1.0)
    front = np.sort(find_pareto_front(points))
    cheapest, safest = (scaled[front[np.argmin(scaled[front, axis])]] for axis in (1, 0))
    along = safest - cheapest
    # The cross product with `along` is the signed distance from the line times a constant: negative below the line.
    above = (scaled[front] - cheapest) @ np.array([along[1], -along[0]])
    if above.min() >= 0:
        return int(front[np.argmin(scaled[front, 0])])
    return int(front[np.argmin(above)])


def hypervolume(points: Sequence[tuple[float, float]], reference: tuple[float, float] = REFERENCE_POINT) -> float:
    """Compute the share of the rectangle up to the reference that is dominated.

    The rectangle starts at (0, 0), so the share runs from 0 to 1.

    A cost below zero counts as zero.
    """
    values = np.maximum(np.asarray(points, dtype=np.float64).reshape(-1, 2), 0.0)
    values = values[(values < reference).all(1)]
    front = values[find_pareto_front([(float(a), float(c)) for a, c in values])]
    if not len(front):
        return 0.0
    # The front rises in advantage and falls in cost: each step reaches to the advantage of the next point.
    reach = np.append(front[1:, 0], reference[0]) - front[:, 0]
    share = (reach * (reference[1] - front[:, 1])).sum() / (reference[0] * reference[1])
    return min(1.0, float(share))  # rounding may carry the sum of the steps past 1
