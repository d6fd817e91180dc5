"""Quadratic discriminant, nearest neighbors and boosted trees, with equal priors."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Self

import numpy as np
from pydantic import Field
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.neighbors import NearestNeighbors

from recveil.core.option_types import Count, PositiveFloat, SeedNumber
from recveil.core.traits import AttackTraits
from recveil.core.types import FloatArray, IntArray

__all__ = [
    "Boosted",
    "Neighbors",
    "Quadratic",
    "assign_bins",
    "compute_balanced_weights",
    "compute_bin_edges",
    "softmax",
    "softmax_margins",
]

METHODS = (
    AttackTraits("qda", builder="Quadratic", panels=("fast", "full"), rank=50),
    AttackTraits("knn", builder="Neighbors", panels=("fast", "full"), rank=70),
    AttackTraits("trees", builder="Boosted", panels=("fast", "two-releases"), rank=130),
    AttackTraits(
        "boosting",
        builder="Boosted",
        summary="Histogram gradient boosting: 100 trees of eight leaves.",
        options={"iterations": 100, "max_leaves": 8},
        panels=("full",),
        is_python_bound=True,
        rank=140,
    ),
)


@dataclass
class Quadratic:
    """Quadratic discriminant analysis with equal priors.

    A small ridge admits classes of fewer than d users.
    """

    ridge: PositiveFloat = 1e-2
    seed: SeedNumber = 0
    _means: FloatArray = field(init=False, repr=False)
    _whitening: FloatArray = field(init=False, repr=False)
    _logdet: FloatArray = field(init=False, repr=False)

    def fit(self, x: FloatArray, y: IntArray) -> Self:
        """Learn each class's mean and covariance."""
        class_rows = [x[y == k] for k in np.unique(y)]
        self._means = np.stack([rows.mean(0) for rows in class_rows])
        eye = np.eye(x.shape[1])
        centered = [rows - mean for rows, mean in zip(class_rows, self._means, strict=True)]
        covariances = [c.T @ c / len(c) for c in centered]
        roots = np.linalg.cholesky(np.stack([(1 - self.ridge) * C + self.ridge * eye for C in covariances]))
        self._whitening = np.linalg.inv(roots).transpose(0, 2, 1)
        self._logdet = np.log(np.diagonal(roots, axis1=1, axis2=2)).sum(1)
        return self

    def predict_proba(self, x: FloatArray) -> FloatArray:
        """Return the posterior of each class under equal priors."""
        distances = [np.square((x - m) @ w).sum(1) for m, w in zip(self._means, self._whitening, strict=True)]
        return softmax(-0.5 * np.stack(distances, 1) - self._logdet)


@dataclass
class Neighbors:
    """k nearest neighbors whose votes are divided by the size of their class.

    Of more than `max_users` training users a sample is kept, so that the cost grows linearly with the users.
    """

    k: Count = 25
    max_users: Count = 10_000
    seed: SeedNumber = 0
    _search: NearestNeighbors = field(init=False, repr=False)
    _ballots: FloatArray = field(init=False, repr=False)

    def fit(self, x: FloatArray, y: IntArray) -> Self:
        """Keep the training users."""
        if len(x) > self.max_users:
            rows = np.random.default_rng(self.seed).permutation(len(x))[: self.max_users]
            rows = np.union1d(rows, np.unique(y, return_index=True)[1])  # at least one user of each class
            x, y = x[rows], y[rows]
        classes, codes = np.unique(y, return_inverse=True)
        self._ballots = np.eye(len(classes))[codes] / np.bincount(codes)
        self._search = NearestNeighbors(n_neighbors=min(self.k, len(x))).fit(x)
        return self

    def predict_proba(self, x: FloatArray) -> FloatArray:
        """Return the shares of the weighted votes."""
        votes = self._ballots[self._search.kneighbors(x, return_distance=False)].sum(1)
        return np.asarray(votes / votes.sum(1, keepdims=True))


@dataclass
class Boosted:
    """Histogram gradient boosting on values binned by the training users' quantiles.

    scikit-learn computes weighted quantiles one by one, which on a few thousand users takes ten times as long as the
    trees; it accepts values that are bin numbers as they are.
    """

    seed: SeedNumber = 0
    bins: Annotated[Count, Field(ge=2, le=255)] = 127
    iterations: Count = 60
    max_leaves: Annotated[Count, Field(ge=2)] = 15
    _edges: FloatArray = field(init=False, repr=False)
    _trees: HistGradientBoostingClassifier = field(init=False, repr=False)

    def fit(self, x: FloatArray, y: IntArray) -> Self:
        """Bin the values and grow the trees."""
        self._edges = compute_bin_edges(x, self.bins)
        self._trees = HistGradientBoostingClassifier(
            max_iter=self.iterations,
            max_leaf_nodes=self.max_leaves,
            max_bins=self.bins,
            class_weight="balanced",
            early_stopping=False,
            random_state=self.seed,
        ).fit(assign_bins(x, self._edges), y)
        return self

    def predict_proba(self, x: FloatArray) -> FloatArray:
        """Return the beliefs of the trees."""
        guess: FloatArray = self._trees.predict_proba(assign_bins(x, self._edges))
        return guess


def compute_balanced_weights(y: IntArray) -> FloatArray:
    """Compute a weight for each user, with the same sum for every class and mean 1."""
    classes, codes, counts = np.unique(y, return_inverse=True, return_counts=True)
    return np.asarray(len(y) / (len(classes) * counts[codes]))


def compute_bin_edges(x: FloatArray, bins: int) -> FloatArray:
    """Compute the (bins - 1, d) edges of bins of equal size in each column."""
    return np.asarray(np.quantile(x, np.linspace(0, 1, bins + 1)[1:-1], axis=0))


def assign_bins(x: FloatArray, edges: FloatArray) -> FloatArray:
    """Return the number of the bin that each value lies in."""
    columns = [np.searchsorted(cuts, values, side="right") for cuts, values in zip(edges.T, x.T, strict=True)]
    return np.stack(columns, axis=1).astype(np.float64)


def softmax(logits: FloatArray) -> FloatArray:
    """Turn logits into rows that sum to one."""
    shifted = np.exp(logits - logits.max(1, keepdims=True))
    return np.asarray(shifted / shifted.sum(1, keepdims=True))


def softmax_margins(margins: FloatArray) -> FloatArray:
    """Turn margins into beliefs that rank users as the margins do.

    The beliefs are not calibrated. Margins have one column for each class, or are flat where there are two classes.
    """
    return softmax(np.stack([-margins, margins], 1) if margins.ndim == 1 else margins)
