"""The unit of work of an attack: learn from these users, guess those."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from recveil.core import AttributeAttack, FloatArray, IntArray
from recveil.progress import track

__all__ = ["Attack", "OneByOne", "Task"]


@dataclass(frozen=True, eq=False)
class Task:
    """Users whose class the attacker knows, and users to guess; row numbers of one table."""

    train: IntArray
    test: IntArray


class Attack(Protocol):
    """Guesses for many tasks at once: one (len(task.test), n_classes) array of probabilities for each."""

    def guess(
        self, x: FloatArray, y: IntArray, n_classes: int, tasks: Sequence[Task], *, rng: np.random.Generator
    ) -> list[FloatArray]:
        """Learn each task from its training users alone and guess its test users."""


@dataclass(frozen=True)
class OneByOne:
    """Any scikit-learn classifier as an attack: standardized on the training users, one fit per task."""

    make: Callable[..., AttributeAttack]
    standardize: bool = True

    def guess(
        self, x: FloatArray, y: IntArray, n_classes: int, tasks: Sequence[Task], *, rng: np.random.Generator
    ) -> list[FloatArray]:
        """Fit a fresh classifier for each task; `make` receives a `seed`."""
        seeds = rng.integers(2**31 - 1, size=len(tasks))
        label = getattr(self.make, "__name__", "classifier").lower()
        # Tables of this size are too small for OpenMP: its start-up costs more than the second core saves.
        x = np.asarray(x, dtype=np.float64)  # in single precision the square of a small number is zero
        with threadpool_limits(1, user_api="openmp"):
            return [
                self._one(x, y, n_classes, task, int(seed))
                for task, seed in zip(track(tasks, f"attacking: {label}", len(tasks)), seeds, strict=True)
            ]

    def _one(self, x: FloatArray, y: IntArray, n_classes: int, task: Task, seed: int) -> FloatArray:
        scaler = StandardScaler(with_mean=self.standardize, with_std=self.standardize).fit(x[task.train])
        classifier = self.make(seed=seed).fit(scaler.transform(x[task.train]), y[task.train])
        guess = np.zeros((len(task.test), n_classes), dtype=np.float32)
        guess[:, np.unique(y[task.train])] = classifier.predict_proba(scaler.transform(x[task.test]))
        return guess
