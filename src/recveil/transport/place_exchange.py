"""Exchange of places: the rows of a table stay as they are, and users of different classes trade them.

A class gives away places where it is in excess and takes places where it is scarce. Both are judged by cross-fitted
learners (`class_evidence`). The goal is what chance may give: the class shares keep their differences, scaled down
until the learners find no more than they may find in random labels. Rows are only traded, so no new place appears that
could tell a class, and nobody trades for differences that chance explains.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from recveil.core.types import FloatArray, IntArray
from recveil.transport.class_evidence import FOLDS, weigh_evidence
from recveil.transport.row_order import sort_rows

__all__ = ["exchange_places"]

MAX_PASSES = 6
"""Passes over the table; it usually stops after two."""

MAX_MOVERS_PER_ASSIGNMENT = 1_500
"""Users whose places are assigned together, because the cost grows with the cube of their number."""


def exchange_places(
    x: FloatArray,
    codes: IntArray,
    rng: np.random.Generator,
    *,
    share: float = 1.0,
    device: str | torch.device = "cpu",
    exposed: FloatArray | None = None,
) -> IntArray:
    """Return for each user the row that the user gets; a permutation of the rows.

    The order of the rows does not matter: draws are made in the order of the rows' content.

    Args:
        x: rows, one for each user.
        codes: class of each user; users with -1 keep their rows.
        rng: source of randomness.
        share: share of the moves that are made.
        device: where the kernel regressions are computed.
        exposed: what attackers see of each row, if more than the row; it must follow from the row alone, so that who
            gets the row gets it too.
    """
    rows = np.arange(len(x))
    known = np.flatnonzero(codes >= 0)
    known = known[sort_rows(x[known], codes[known])]
    labels = np.unique(codes[known], return_inverse=True)[1]
    if len(known) < 2 * FOLDS or not labels.any():
        return rows
    exposed = None if exposed is None else exposed[known]
    rows[known] = known[_run_passes(x[known], labels, rng, share, device, exposed)]
    return rows


def _run_passes(
    x: FloatArray,
    labels: IntArray,
    rng: np.random.Generator,
    share: float,
    device: str | torch.device,
    exposed: FloatArray | None,
) -> NDArray[np.intp]:
    """Run passes until the learners predict the labels no better than random ones."""
    holder = np.arange(len(x))  # the user at each place
    labels = labels.copy()  # the label at each place
    for _ in range(MAX_PASSES):
        evidence = weigh_evidence(x, labels, rng, device, exposed=exposed)
        if not evidence.is_beyond_chance:
            break
        own = np.arange(len(x)), labels
        goal = evidence.chance_shares
        kept = np.minimum(1.0, goal[own] / evidence.shares[own])
        movers = np.flatnonzero(rng.random(len(x)) < share * (1 - kept))
        need = goal - evidence.shares
        for group in np.array_split(rng.permutation(movers), -(-len(movers) // MAX_MOVERS_PER_ASSIGNMENT) or 1):
            place = group[_assign_places(x[group], labels[group], need[group])]
            holder[place], labels[place] = holder[group], labels[group]
        if share < 1:
            break  # a further pass would make up for the moves that are not wanted
    rows = np.empty(len(x), dtype=np.intp)
    rows[holder] = np.arange(len(x))
    return rows


def _assign_places(x: FloatArray, labels: IntArray, need: FloatArray) -> NDArray[np.intp]:
    """Return for each mover the place that it gets: the nearest assignment among places that need its class."""
    distance = cdist(x, x, "sqeuclidean")
    far = 10 * float(distance.max(initial=0.0)) + 1e-12
    cost = np.where(need[:, labels].T > 0, distance, far + distance)
    np.fill_diagonal(cost, far / 2)  # to stay is better than to go where the class is in excess
    return np.asarray(linear_sum_assignment(cost)[1])
