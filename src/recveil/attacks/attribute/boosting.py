"""Gradient boosting of trees, class-balanced, on a table that is binned once for all tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from sklearn.ensemble import HistGradientBoostingClassifier

from recveil.attacks.attribute.classic import assign_bins, compute_bin_edges
from recveil.attacks.attribute.tasks import Task, run_tasks, share_fits
from recveil.core.option_types import Count, PositiveFloat
from recveil.core.traits import AttackTraits
from recveil.core.types import FloatArray, IntArray

__all__ = ["BoostedTrees"]

METHODS = (
    AttackTraits("trees", builder="BoostedTrees", panels=("fast", "two-releases"), rank=130),
    AttackTraits(
        "boosting",
        builder="BoostedTrees",
        summary="Histogram gradient boosting: 100 trees of eight leaves.",
        options={"iterations": 100, "max_leaves": 8, "rate": 0.1},
        panels=("full",),
        rank=140,
    ),
)


@dataclass(frozen=True)
class BoostedTrees:
    """Histogram gradient boosting on values binned by quantiles.

    The bins are quantiles of all users that any task learns from; no class is looked at for them.
    """

    bins: Annotated[Count, Field(ge=2, le=255)] = 127
    iterations: Count = 40
    max_leaves: Annotated[Count, Field(ge=2)] = 15
    rate: PositiveFloat = 0.15

    def guess(
        self, x: FloatArray, y: IntArray, n_classes: int, tasks: Sequence[Task], *, rng: np.random.Generator
    ) -> list[FloatArray]:
        """Return the beliefs of the trees about the test users of each task."""
        known = np.unique(np.concatenate([task.train for task in tasks]))
        wide = np.asarray(x, dtype=np.float64)
        numbers = assign_bins(wide, compute_bin_edges(wide[known], self.bins))

        def solve(task: Task, seed: int) -> FloatArray:
            trees = _BinnedBoosting(
                max_iter=self.iterations,
                learning_rate=self.rate,
                max_leaf_nodes=self.max_leaves,
                max_bins=self.bins,
                class_weight="balanced",
                early_stopping=False,
                random_state=seed,
            ).fit(numbers[task.train], y[task.train])
            guess = np.zeros((len(task.test), n_classes), dtype=np.float32)
            guess[:, trees.classes_] = trees.predict_proba(numbers[task.test])
            return guess

        return share_fits(partial(run_tasks, solve, size=x.size, label="trees", rng=rng), tasks)


class _BinnedBoosting(HistGradientBoostingClassifier):  # type: ignore[misc]
    """Boosting of values that are bin numbers already.

    scikit-learn would compute weighted quantiles of each column again for each fit. A version of it that asks for no
    `_bin_data` bins the numbers by themselves, which changes nothing but the time.
    """

    def _bin_data(self, X: FloatArray, *_: Any, **__: Any) -> NDArray[np.uint8]:
        """Return the numbers as they are, and tell scikit-learn's mapper what they mean."""
        mapper, d = self._bin_mapper, X.shape[1]
        mapper.is_categorical_ = np.zeros(d, dtype=np.uint8)
        mapper.missing_values_bin_idx_ = self.max_bins
        mapper.bin_thresholds_ = [np.arange(self.max_bins - 1) + 0.5] * d
        mapper.n_bins_non_missing_ = np.full(d, self.max_bins, dtype=np.uint32)
        return np.asfortranarray(X, dtype=np.uint8)
