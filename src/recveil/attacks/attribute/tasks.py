"""The unit of work of an attack: learn from these users, guess those."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np
import torch
from joblib import Parallel, delayed, parallel_config
from sklearn.preprocessing import StandardScaler
from threadpoolctl import ThreadpoolController

from recveil.core import AttributeAttack, FloatArray, IntArray
from recveil.progress import track

__all__ = ["Attack", "OneByOne", "Task", "side_by_side"]

ROOM = 1 << 27
"""Numbers that the tasks under way may hold together; large tables are attacked by fewer tasks at a time."""

MOST_THREADS = 4


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
        x = np.asarray(x, dtype=np.float64)  # in single precision the square of a small number is zero
        one = partial(_fit_and_guess, self.make, self.standardize, x, y, n_classes)
        return side_by_side(one, tasks, size=x.size, label=getattr(self.make, "__name__", "classifier"), rng=rng)


def _fit_and_guess(
    make: Callable[..., AttributeAttack],
    standardize: bool,
    x: FloatArray,
    y: IntArray,
    n_classes: int,
    task: Task,
    seed: int,
) -> FloatArray:
    scaler = StandardScaler(with_mean=standardize, with_std=standardize).fit(x[task.train])
    classifier = make(seed=seed).fit(scaler.transform(x[task.train]), y[task.train])
    guess = np.zeros((len(task.test), n_classes), dtype=np.float32)
    guess[:, np.unique(y[task.train])] = classifier.predict_proba(scaler.transform(x[task.test]))
    return guess


def side_by_side(
    one: Callable[[Task, int], FloatArray], tasks: Sequence[Task], *, size: int, label: str, rng: np.random.Generator
) -> list[FloatArray]:
    """What `one` makes of each task with a seed of its own, as many at a time as there are cores and room.

    Each task has one thread: tables of this size are too small for OpenMP and BLAS to share out. A few cores are kept
    busy by threads, which start at once; on many, threads would wait for each other's Python, and processes are used.
    """
    seeds = rng.integers(2**31 - 1, size=len(tasks)).tolist()
    workers = max(1, min(torch.get_num_threads(), len(tasks), ROOM // max(size, 1)))
    how = "threading" if workers <= MOST_THREADS else "loky"
    limits = ThreadpoolController()  # looks through all loaded libraries: once, not for every task

    def alone(task: Task, seed: int) -> FloatArray:
        with limits.limit(limits=1, user_api="openmp"):  # a new thread starts with OpenMP's own number
            return one(task, seed)

    with (
        limits.limit(limits=1),
        parallel_config(how, n_jobs=workers, inner_max_num_threads=1 if how == "loky" else None),
    ):
        work = delayed(alone if how == "threading" else one)
        done = Parallel(return_as="generator")(work(task, seed) for task, seed in zip(tasks, seeds, strict=True))
        return list(track(done, f"attacking: {label.lower()}", len(tasks)))
