"""Exchange of places: the rows of a table stay as they are, and users of different classes trade them.

A class gives away places where it is in excess and takes places where it is scarce. Both are judged by cross-fitted
kernel regression of the class indicators, and the goal is a *permuted-label reference*: what the same regression says
of labels that were permuted at random. Rows are only traded, so no new place appears that could tell a class, and the
goal fluctuates as random labels do, so nothing is made equal beyond chance.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from recveil.core.types import FloatArray, IntArray
from recveil.transport.kernel_regression import MAX_LANDMARKS, KernelRegression, choose_setting, standardize_columns
from recveil.transport.polar_coordinates import PolarCoordinates

__all__ = ["exchange_places"]

MAX_PASSES = 6
"""Passes over the table; it usually stops after two."""

MAX_USERS_PER_PART = 16_000
"""Users who trade with each other. Larger tables are cut at random into parts, each of which is a table of its own."""

MAX_MOVERS_PER_ASSIGNMENT = 1_500
"""Users whose places are assigned together, because the cost grows with the cube of their number."""

FOLDS = 4
"""Folds of the cross-fitted regressions."""

PERMUTATIONS = 19
"""Permutations of the labels that the true labels are compared with: a test of size 1 / 20."""

MAX_TARGET_COLUMNS = 400
"""Columns that are regressed at once; with many classes there are fewer permutations, but at least one."""


def exchange_places(x: FloatArray, codes: IntArray, rng: np.random.Generator, *, share: float = 1.0) -> IntArray:
    """Return for each user the row that the user gets; a permutation of the rows.

    The order of the rows does not matter: draws are made in the order of the rows' content.

    Args:
        x: rows, one for each user.
        codes: class of each user; users with -1 keep their rows.
        rng: source of randomness.
        share: share of the moves that are made.
    """
    rows = np.arange(len(x))
    known = np.flatnonzero(codes >= 0)
    known = known[np.lexsort((codes[known], *np.asarray(x)[known].T))]
    labels = np.unique(codes[known], return_inverse=True)[1]
    if len(known) < 2 * FOLDS or not labels.any():
        return rows
    order = rng.permutation(len(known))
    for part in np.array_split(order, -(-len(known) // MAX_USERS_PER_PART)):
        part.sort()
        rows[known[part]] = known[part][_exchange_part(x[known[part]], labels[part], rng, share)]
    return rows


@dataclass(frozen=True, eq=False)
class _Posteriors:
    """Cross-fitted class shares at each place: of the labels, and of permuted labels; and whether they differ."""

    labels: FloatArray
    reference: FloatArray
    is_beyond_chance: bool


def _exchange_part(x: FloatArray, labels: IntArray, rng: np.random.Generator, share: float) -> NDArray[np.intp]:
    """Run passes until the regression predicts the labels no better than permuted ones."""
    places = standardize_columns(PolarCoordinates.fit(x).encode(x))
    holder = np.arange(len(x))  # the user at each place
    labels = labels.copy()  # the label at each place
    for _ in range(MAX_PASSES):
        posteriors = _estimate_posteriors(places, labels, rng)
        if not posteriors.is_beyond_chance:
            break
        own = np.arange(len(x)), labels
        kept = np.minimum(1.0, posteriors.reference[own] / posteriors.labels[own])
        movers = np.flatnonzero(rng.random(len(x)) < share * (1 - kept))
        need = posteriors.reference - posteriors.labels
        for group in np.array_split(rng.permutation(movers), -(-len(movers) // MAX_MOVERS_PER_ASSIGNMENT) or 1):
            goal = _assign_places(x[group], labels[group], need[group])
            holder[group[goal]], labels[group[goal]] = holder[group], labels[group]
        if share < 1:
            break  # a further pass would make up for the moves that are not wanted
    rows = np.empty(len(x), dtype=np.intp)
    rows[holder] = np.arange(len(x))
    return rows


def _estimate_posteriors(places: FloatArray, labels: IntArray, rng: np.random.Generator) -> _Posteriors:
    """Regress the class indicators of the labels and of permuted labels on the places."""
    n, K = len(labels), int(labels.max()) + 1
    permutations = max(1, min(PERMUTATIONS, MAX_TARGET_COLUMNS // K - 1))
    indicators = np.eye(K)[labels]
    targets = np.hstack([indicators, *(indicators[rng.permutation(n)] for _ in range(permutations))])
    weights = np.ones(n)
    setting = choose_setting(places, indicators, weights, rng)
    regression = KernelRegression(setting, places[rng.permutation(n)[:MAX_LANDMARKS]])
    features = regression.compute_features(places)
    predicted = np.empty_like(targets)
    for test in np.array_split(rng.permutation(n), FOLDS):
        train = np.setdiff1d(np.arange(n), test)
        predicted[test] = regression.fit(features[train], targets[train], weights[train]).predict(features[test])
    errors = np.square(predicted - targets).reshape(n, -1, K).sum((0, 2))
    rank = int((errors[1:] <= errors[0]).sum())  # permuted labels that are predicted at least as well
    clipped = np.clip(predicted, 1e-4, 1.0)
    return _Posteriors(clipped[:, :K], clipped[:, K : 2 * K], rank == 0)


def _assign_places(x: FloatArray, labels: IntArray, need: FloatArray) -> NDArray[np.intp]:
    """Return for each mover the place that it gets: the nearest assignment among places that need its class."""
    distance = cdist(x, x, "sqeuclidean")
    far = 10 * float(distance.max(initial=0.0)) + 1e-12
    cost = np.where(need[:, labels].T > 0, distance, far + distance)
    np.fill_diagonal(cost, far / 2)  # to stay is better than to go where the class is in excess
    return np.asarray(linear_sum_assignment(cost)[1])
