"""Exchange of places: the rows of a table stay as they are, and users of different classes trade them.

A class gives away places where it is in excess and takes places where it is scarce. Both are judged by cross-fitted
kernel regression of the class indicators, and the goal is a *permuted-label reference*: what the same regression says
of labels that were permuted at random. Rows are only traded, so no new place appears that could tell a class, and the
goal fluctuates as random labels do, so nothing is made equal beyond chance.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist
from torch import Tensor

from recveil.core.types import FloatArray, IntArray
from recveil.transport.kernel_regression import choose_setting, compute_kernel, solve_ridge, standardize_columns
from recveil.transport.polar_coordinates import PolarCoordinates

__all__ = ["exchange_places"]

MAX_PASSES = 6
"""Passes over the table; it usually stops after two."""

MAX_USERS_PER_PART = 12_000
"""Users who trade with each other; memory grows with their square. Larger tables are cut at random into parts, each of
which is a table of its own."""

MAX_MOVERS_PER_ASSIGNMENT = 1_500
"""Users whose places are assigned together, because the cost grows with the cube of their number."""

FOLDS = 4
"""Folds of the cross-fitted regressions."""

PERMUTATIONS = 19
"""Permutations of the labels that the true labels are compared with: a test of size 1 / 20."""

MAX_TARGET_COLUMNS = 400
"""Columns that are regressed at once; with many classes there are fewer permutations, but at least one."""


def exchange_places(
    x: FloatArray, codes: IntArray, rng: np.random.Generator, *, share: float = 1.0, device: str | torch.device = "cpu"
) -> IntArray:
    """Return for each user the row that the user gets; a permutation of the rows.

    The order of the rows does not matter: draws are made in the order of the rows' content.

    Args:
        x: rows, one for each user.
        codes: class of each user; users with -1 keep their rows.
        rng: source of randomness.
        share: share of the moves that are made.
        device: where the regressions are computed.
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
        rows[known[part]] = known[part][_exchange_part(x[known[part]], labels[part], rng, share, device)]
    return rows


@dataclass(frozen=True, eq=False)
class _Posteriors:
    """Cross-fitted class shares at each place: of the labels, and of permuted labels; and whether they differ."""

    labels: FloatArray
    reference: FloatArray
    is_beyond_chance: bool


def _exchange_part(
    x: FloatArray, labels: IntArray, rng: np.random.Generator, share: float, device: str | torch.device
) -> NDArray[np.intp]:
    """Run passes until the regression predicts the labels no better than permuted ones."""
    places = torch.as_tensor(standardize_columns(PolarCoordinates.fit(x).encode(x)), device=device)
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


def _estimate_posteriors(places: Tensor, labels: IntArray, rng: np.random.Generator) -> _Posteriors:
    """Regress the class indicators of the labels and of permuted labels on the places."""
    n, K = len(labels), int(labels.max()) + 1
    columns = 1 if K == 2 else K  # the second of two classes is the rest of the first
    permutations = max(1, min(PERMUTATIONS, MAX_TARGET_COLUMNS // K - 1))
    indicators = np.eye(K, dtype=np.float32)[labels][:, :columns]
    stacked = np.hstack([indicators, *(indicators[rng.permutation(n)] for _ in range(permutations))])
    targets = torch.as_tensor(stacked, device=places.device)
    order = torch.as_tensor(rng.permutation(n), device=places.device)
    setting = choose_setting(places[order], targets[order, :columns], torch.ones_like(targets[:, 0]))
    gram = compute_kernel(places, places, setting)
    predicted = torch.empty_like(targets)
    for test in torch.tensor_split(order, FOLDS):
        precision = torch.full_like(targets[:, :1], 1 / setting.ridge)
        precision[test] = 0
        coefficients, mean = solve_ridge(gram, targets, precision)
        predicted[test] = gram[test] @ coefficients + mean
    errors = (predicted - targets).square().reshape(n, -1, columns).sum((0, 2))
    rank = int((errors[1:] <= errors[0]).sum())  # permuted labels that are predicted at least as well
    shares = predicted[:, : 2 * columns].cpu().numpy().astype(np.float64)
    if K == 2:
        shares = np.stack([shares[:, 0], 1 - shares[:, 0], shares[:, 1], 1 - shares[:, 1]], axis=1)
    clipped = np.clip(shares, 1e-4, 1.0)
    return _Posteriors(clipped[:, :K], clipped[:, K:], rank == 0)


def _assign_places(x: FloatArray, labels: IntArray, need: FloatArray) -> NDArray[np.intp]:
    """Return for each mover the place that it gets: the nearest assignment among places that need its class."""
    distance = cdist(x, x, "sqeuclidean")
    far = 10 * float(distance.max(initial=0.0)) + 1e-12
    cost = np.where(need[:, labels].T > 0, distance, far + distance)
    np.fill_diagonal(cost, far / 2)  # to stay is better than to go where the class is in excess
    return np.asarray(linear_sum_assignment(cost)[1])
