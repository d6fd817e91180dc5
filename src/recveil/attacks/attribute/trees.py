"""Attacks by trees: one tree, forests, stumps and XGBoost, class-balanced."""

from __future__ import annotations

import importlib
import warnings
from dataclasses import dataclass, field
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

from recveil.attacks.attribute.classic import assign_bins, compute_balanced_weights, compute_bin_edges, softmax
from recveil.core.errors import MissingExtra
from recveil.core.option_types import Count, SeedNumber
from recveil.core.traits import AttackTraits
from recveil.core.types import FloatArray, IntArray

__all__ = ["Forest", "Stumps", "XGBoost", "build_tree"]

METHODS = (
    AttackTraits("tree", builder="build_tree", panels=("full",), rank=100),
    AttackTraits(
        "forest",
        builder="Forest",
        panels=("full", "two-releases-many"),
        is_python_bound=True,
        predicts_left_out=True,
        rank=110,
    ),
    AttackTraits("adaboost", builder="Stumps", panels=("full",), is_python_bound=True, rank=120),
    AttackTraits("xgboost", builder="XGBoost", extra="xgboost", panels=("full",), rank=150),
)


def build_tree(seed: SeedNumber) -> DecisionTreeClassifier:
    """Build a decision tree with at least five training users in each leaf."""
    return DecisionTreeClassifier(class_weight="balanced", min_samples_leaf=5, random_state=seed)


@dataclass
class Forest:
    """Random forest of 100 trees, at most 20 deep, class-balanced.

    Departs from scikit-learn's defaults: values are binned by quantiles first, and a tree is grown on `user_share` of
    the users, or on `min_users_per_tree` if that is more (together a quarter of the time at the same accuracy); a leaf
    holds at least six users (pure leaves vote for the larger class of an unbalanced attribute, whatever the weights).
    """

    seed: SeedNumber = 0
    n_trees: Count = 100
    max_depth: Count = 20
    min_users_per_leaf: Count = 6
    bins: Annotated[Count, Field(ge=2, le=255)] = 32
    user_share: Annotated[float, Field(gt=0, le=1)] = 0.3
    min_users_per_tree: Count = 800
    _edges: FloatArray = field(init=False, repr=False)
    _trees: RandomForestClassifier = field(init=False, repr=False)
    left_out_: FloatArray = field(init=False, repr=False)

    def fit(self, x: FloatArray, y: IntArray) -> Self:
        """Bin the values and grow the trees."""
        self._edges = compute_bin_edges(x, self.bins)
        self._trees = RandomForestClassifier(
            self.n_trees,
            max_depth=self.max_depth,
            min_samples_leaf=self.min_users_per_leaf,
            max_samples=min(1.0, max(self.user_share, self.min_users_per_tree / len(x))),
            oob_score=True,
            random_state=self.seed,
        )
        with warnings.catch_warnings():  # with few users some may be in every tree; their belief is then uniform
            warnings.filterwarnings("ignore", message="Some inputs do not have OOB scores")
            self._trees.fit(
                assign_bins(x, self._edges).astype(np.float32), y, sample_weight=compute_balanced_weights(y)
            )
        self.left_out_ = np.nan_to_num(self._trees.oob_decision_function_, nan=1 / len(self._trees.classes_))
        return self

    def predict_proba(self, x: FloatArray) -> FloatArray:
        """Return the mean of the trees."""
        guess: FloatArray = self._trees.predict_proba(assign_bins(x, self._edges).astype(np.float32))
        return guess


@dataclass
class Stumps:
    """AdaBoost: 50 trees of one split.

    Each is fitted to the users that the earlier ones misclassify: SAMME of Zhu and others (2009), started from
    class-balanced weights. Departs: splits lie at quantiles of the training users, so that a round is one histogram of
    each column instead of a sort (about a tenth of scikit-learn's time).
    """

    seed: SeedNumber = 0
    rounds: Count = 50
    bins: Annotated[Count, Field(ge=2, le=255)] = 127
    _edges: FloatArray = field(init=False, repr=False)
    _stumps: list[tuple[int, int, int, int, float]] = field(init=False, repr=False)  # column, bin, left, right, weight
    _n_classes: int = field(init=False, repr=False)

    def fit(self, x: FloatArray, y: IntArray) -> Self:
        """Add stumps until one is perfect or none is better than chance."""
        classes, codes = np.unique(y, return_inverse=True)
        K = self._n_classes = len(classes)
        self._edges, self._stumps = compute_bin_edges(x, self.bins), []
        columns = assign_bins(x, self._edges).T.astype(np.intp)  # (d, n)
        cells = columns * K + codes
        weight = compute_balanced_weights(y) / len(y)
        for _ in range(self.rounds):
            column, at, left, right = self._find_best_split(cells, weight)
            wrong = np.where(columns[column] <= at, left, right) != codes
            error = float(weight[wrong].sum())
            if error > 1 - 1 / K - 1e-9:
                break
            vote = np.log((1 - error) / max(error, 1e-10)) + np.log(max(K - 1, 1))
            self._stumps.append((column, at, left, right, float(vote)))
            if error <= 1e-10:
                break
            weight = weight * np.exp(vote * wrong)
            weight /= weight.sum()
        return self

    def predict_proba(self, x: FloatArray) -> FloatArray:
        """Return the softmax of the weighted votes, as scikit-learn does."""
        votes = np.zeros((len(x), self._n_classes))
        columns = assign_bins(x, self._edges).T
        users = np.arange(len(x))
        for column, at, left, right, vote in self._stumps:
            votes[users, np.where(columns[column] <= at, left, right)] += vote
        share = votes / max(sum(stump[-1] for stump in self._stumps), 1e-12)
        return softmax(share * self._n_classes / max(self._n_classes - 1, 1) ** 2)

    def _find_best_split(self, cells: NDArray[np.intp], weight: FloatArray) -> tuple[int, int, int, int]:
        """Find the split with the purest sides (Gini), and the main class of each side."""
        K, size = self._n_classes, self.bins * self._n_classes
        sums = [np.bincount(column, weights=weight, minlength=size) for column in cells]
        left = np.stack(sums).reshape(-1, self.bins, K).cumsum(1)  # (d, bins, K)
        right = left[:, -1:] - left
        purity = sum(np.square(side).sum(2) / np.maximum(side.sum(2), 1e-12) for side in (left, right))
        column, at = np.unravel_index(int(np.argmax(purity)), left.shape[:2])
        return int(column), int(at), int(left[column, at].argmax()), int(right[column, at].argmax())


@dataclass
class XGBoost:
    """XGBoost with its own defaults, class-balanced; needs the extra `xgboost`.

    Departs: 64 `bins` instead of 256, which on a few thousand users are mostly empty and take most of the time.
    """

    seed: SeedNumber = 0
    balanced: bool = True
    bins: Annotated[Count, Field(ge=2, le=255)] = 64
    _trees: Any = field(init=False, repr=False)

    def fit(self, x: FloatArray, y: IntArray) -> Self:
        """Grow the trees."""
        codes = np.unique(y, return_inverse=True)[1]  # it takes only the labels 0, 1, ... without a gap
        trees = _import_xgboost().XGBClassifier(n_jobs=1, max_bin=self.bins, random_state=self.seed)
        self._trees = trees.fit(x, codes, sample_weight=compute_balanced_weights(y) if self.balanced else None)
        return self

    def predict_proba(self, x: FloatArray) -> FloatArray:
        """Return the beliefs of the trees."""
        guess: FloatArray = self._trees.predict_proba(x)
        return guess


def _import_xgboost() -> Any:
    try:
        return importlib.import_module("xgboost")
    except ImportError as error:
        raise MissingExtra(
            "The XGBoost attackers need the package xgboost, which is not installed. "
            "Install it with: pip install 'recveil[xgboost]', or choose a panel without them."
        ) from error
