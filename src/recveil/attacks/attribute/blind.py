"""Blind attacks, which ignore the vectors: every other attack has to beat them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from recveil.attacks.attribute.tasks import Task
from recveil.core.option_types import SeedNumber
from recveil.core.traits import AttackTraits
from recveil.core.types import FloatArray, IntArray

__all__ = ["Majority", "StratifiedRandom"]

METHODS = (
    AttackTraits("majority", builder="Majority", panels=("full",), is_blind=True, rank=10),
    AttackTraits("random", builder="StratifiedRandom", panels=("full",), is_blind=True, rank=20),
)


@dataclass
class Majority:
    """The largest class for every user, with the shares of the classes as belief."""

    seed: SeedNumber = 0
    _shares: FloatArray = field(init=False, repr=False)

    def fit(self, x: FloatArray, y: IntArray) -> Self:
        """Count the classes."""
        counts = np.unique(y, return_counts=True)[1]
        self._shares = counts / counts.sum()
        return self

    def predict_proba(self, x: FloatArray) -> FloatArray:
        """Return the same row for every user."""
        return np.tile(self._shares, (len(x), 1))


@dataclass(frozen=True)
class StratifiedRandom:
    """A random class for each user, in the proportions of the training users."""

    def guess(
        self, x: FloatArray, y: IntArray, n_classes: int, tasks: Sequence[Task], *, rng: np.random.Generator
    ) -> list[FloatArray]:
        """Return one certain, random belief for each test user of each task."""
        return [self._draw_classes(len(x), y, n_classes, task, rng) for task in tasks]

    def _draw_classes(self, n: int, y: IntArray, n_classes: int, task: Task, rng: np.random.Generator) -> FloatArray:
        counts = np.bincount(y[task.train], minlength=n_classes)
        # Drawn for the whole table, so that a user's draw does not depend on the order of the test users.
        positions = rng.integers(counts.sum(), size=n)[task.test]
        classes = np.searchsorted(np.cumsum(counts), positions, side="right")
        return np.eye(n_classes, dtype=np.float32)[classes]
