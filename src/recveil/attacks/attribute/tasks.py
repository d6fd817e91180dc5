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

from recveil.core.progress import track
from recveil.core.protocols import AttributeAttack
from recveil.core.types import FloatArray, IntArray

__all__ = ["Attack", "Bagged", "OneByOne", "Task", "side_by_side"]

ROOM = 1 << 27
"""Numbers that the tasks under way may hold together; large tables are attacked by fewer tasks at a time."""

MOST_THREADS, MANY = 4, 25


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
    """Any scikit-learn classifier as an attack: standardized on the training users, one fit per task.

    `talks` marks those that spend much of their time in Python rather than in compiled code.
    """

    make: Callable[..., AttributeAttack]
    standardize: bool = True
    talks: bool = False

    def guess(
        self, x: FloatArray, y: IntArray, n_classes: int, tasks: Sequence[Task], *, rng: np.random.Generator
    ) -> list[FloatArray]:
        """Fit a fresh classifier for each task; `make` receives a `seed`."""
        x = np.asarray(x, dtype=np.float64)  # in single precision the square of a small number is zero
        one = partial(_fit_and_guess, self.make, self.standardize, x, y, n_classes)
        label = getattr(self.make, "__name__", "classifier")
        return side_by_side(one, tasks, size=x.size, label=label, rng=rng, talks=self.talks)


@dataclass(frozen=True)
class Bagged(OneByOne):
    """An attack whose parts each learn from some of the training users, and so can guess the others among them.

    Its classifier has `left_out_`: beliefs about each training user by the parts that did not learn from them. That
    serves as well as inner folds, for the cost of none.
    """

    def guess_both(
        self, x: FloatArray, y: IntArray, n_classes: int, tasks: Sequence[Task], *, rng: np.random.Generator
    ) -> list[tuple[FloatArray, FloatArray]]:
        """For each task beliefs about its test users, and about its training users."""
        x = np.asarray(x, dtype=np.float64)
        one = partial(_fit_and_guess, self.make, self.standardize, x, y, n_classes, known_too=True)
        label = getattr(self.make, "__name__", "classifier")
        both = side_by_side(one, tasks, size=x.size, label=label, rng=rng, talks=self.talks)
        return [(b[: len(task.test)], b[len(task.test) :]) for b, task in zip(both, tasks, strict=True)]


def _fit_and_guess(
    make: Callable[..., AttributeAttack],
    standardize: bool,
    x: FloatArray,
    y: IntArray,
    n_classes: int,
    task: Task,
    seed: int,
    *,
    known_too: bool = False,
) -> FloatArray:
    scaler = StandardScaler(with_mean=standardize, with_std=standardize).fit(x[task.train])
    classifier = make(seed=seed).fit(scaler.transform(x[task.train]), y[task.train])
    belief = classifier.predict_proba(scaler.transform(x[task.test]))
    if known_too:
        belief = np.concatenate([belief, classifier.left_out_])  # type: ignore[attr-defined]
    guess = np.zeros((len(belief), n_classes), dtype=np.float32)
    guess[:, np.unique(y[task.train])] = belief
    return guess


def side_by_side(
    one: Callable[[Task, int], FloatArray],
    tasks: Sequence[Task],
    *,
    size: int,
    label: str,
    rng: np.random.Generator,
    talks: bool = False,
) -> list[FloatArray]:
    """What `one` makes of each task with a seed of its own, as many at a time as there are cores and room.

    Small tables are not worth sharing out, so each task has one core; where there is room for few tasks at a time they
    share all. A few cores are kept busy by threads, which start at once. Many threads, and those that `talks` says are
    in Python for long, would wait for each other: they get processes, where there is work enough to wait for these.
    """
    seeds = rng.integers(2**31 - 1, size=len(tasks)).tolist()
    cores = torch.get_num_threads()
    workers = max(1, min(cores, len(tasks), ROOM // max(size, 1)))
    each = max(1, cores // workers) if size > ROOM // cores else 1
    apart = workers > MOST_THREADS or (talks and workers > 1 and len(tasks) >= MANY)
    how = "loky" if apart else "threading"
    limits = ThreadpoolController()  # looks through all loaded libraries: once, not for every task

    def alone(task: Task, seed: int) -> FloatArray:
        with limits.limit(limits=each, user_api="openmp"):  # a new thread starts with OpenMP's own number
            return one(task, seed)

    with (
        limits.limit(limits=1),  # BLAS threads within OpenMP threads may wait for each other for ever
        parallel_config(how, n_jobs=workers, inner_max_num_threads=1 if how == "loky" else None),
    ):
        work = delayed(alone if how == "threading" else one)
        done = Parallel(return_as="generator")(work(task, seed) for task, seed in zip(tasks, seeds, strict=True))
        return list(track(done, f"attacking: {label.lower()}", len(tasks)))
