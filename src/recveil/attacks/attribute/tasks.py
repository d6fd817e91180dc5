"""Tasks of an attribute attack: learn from some users, guess others."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from joblib import Parallel, delayed, parallel_config
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import ThreadpoolController

from recveil.core.progress import track_progress
from recveil.core.types import FloatArray, IntArray

__all__ = [
    "Attack",
    "PooledAttack",
    "Task",
    "find_enclosing_tasks",
    "ignore_convergence_warnings",
    "run_tasks",
    "share_fits",
]

MAX_NUMBERS_HELD = 1 << 27
"""Numbers that the running tasks may hold together; large tables are attacked by fewer tasks at a time."""

MAX_THREADS = 4
"""Tasks that run in threads; more of them run in processes, because threads would wait for each other's Python."""

MIN_TASKS_FOR_PROCESSES = 25
"""Tasks from which starting processes pays off for attacks that spend their time in Python."""


@dataclass(frozen=True, eq=False)
class Task:
    """Users whose class the attacker knows, and users to guess, as row numbers."""

    train: IntArray
    test: IntArray


@runtime_checkable
class Attack(Protocol):
    """An attribute attack: it guesses the classes of many tasks at once."""

    def guess(
        self, x: FloatArray, y: IntArray, n_classes: int, tasks: Sequence[Task], *, rng: np.random.Generator
    ) -> list[FloatArray]:
        """Learn each task from its training users alone and guess its test users.

        Args:
            x: user vectors, one row for each user.
            y: class of each user; those of a task's test users must not be used.
            n_classes: number of classes.
            tasks: training and test users of each task.
            rng: source of randomness.

        Returns:
            For each task an array (len(task.test), n_classes) of probabilities.
        """


@runtime_checkable
class PooledAttack(Attack, Protocol):
    """An attack that guesses the tasks of several repeats of cross-validation in little more time than those of one.

    Its guesses for a task depend on the other repeats in nothing but what is drawn at random.
    """

    def pools_repeats(self, n_users: int, n_classes: int) -> bool:
        """Tell whether repeats are to be run together on a table of this size."""


def find_enclosing_tasks(tasks: Sequence[Task]) -> list[int]:
    """Return for each task the number of the largest task that learns from all of its users, those it guesses included.

    The inner folds of a fold are enclosed by it; a task that no other encloses is enclosed by itself.
    """
    n = max(int(rows.max(initial=-1)) for task in tasks for rows in (task.train, task.test)) + 1
    learns = np.zeros((len(tasks), n), dtype=np.float32)
    for flags, task in zip(learns, tasks, strict=True):
        flags[task.train] = 1
    sizes = learns.sum(1)
    needs = learns.copy()
    for flags, task in zip(needs, tasks, strict=True):
        flags[task.test] = 1
    encloses = learns @ needs.T >= needs.sum(1)  # (other, task)
    np.fill_diagonal(encloses, val=True)
    return [int(number) for number in np.where(encloses, sizes[:, None], 0).argmax(0)]


def share_fits(guess: Callable[[Sequence[Task]], list[FloatArray]], tasks: Sequence[Task]) -> list[FloatArray]:
    """Return guesses for all tasks, in order, from one fit for the tasks that learn from the same users.

    Args:
        guess: learns each of the tasks it is given and guesses its test users.
        tasks: the tasks.
    """
    groups: dict[bytes, list[int]] = {}
    for number, task in enumerate(tasks):
        groups.setdefault(task.train.tobytes(), []).append(number)
    if len(groups) == len(tasks):
        return guess(tasks)
    merged = [Task(tasks[own[0]].train, np.concatenate([tasks[i].test for i in own])) for own in groups.values()]
    guesses: list[FloatArray] = [np.empty(0)] * len(tasks)
    for own, beliefs in zip(groups.values(), guess(merged), strict=True):
        ends = np.cumsum([len(tasks[i].test) for i in own])[:-1]
        for number, part in zip(own, np.split(beliefs, ends), strict=True):
            guesses[number] = part
    return guesses


def run_tasks(
    solve: Callable[[Task, int], FloatArray],
    tasks: Sequence[Task],
    *,
    size: int,
    label: str,
    rng: np.random.Generator,
    is_python_bound: bool = False,
) -> list[FloatArray]:
    """Solve the tasks in parallel, as many at a time as there are cores and memory.

    Each task runs on one core, since small tables gain nothing from more; large tables leave memory for few tasks,
    which then share all cores. A few tasks run in threads, which start at once. Many tasks, and those that hold
    Python's lock for long, run in processes if there is enough work to pay for starting them.

    Args:
        solve: called with a task and a seed of its own.
        tasks: the tasks.
        size: numbers that one task holds.
        label: what progress bars show.
        rng: source of the tasks' seeds.
        is_python_bound: `solve` spends much of its time in Python rather than in compiled code.

    Returns:
        What `solve` returned, in the order of the tasks.
    """
    seeds = rng.integers(2**31 - 1, size=len(tasks)).tolist()
    cores = torch.get_num_threads()
    workers = max(1, min(cores, len(tasks), MAX_NUMBERS_HELD // max(size, 1)))
    cores_per_task = max(1, cores // workers) if size > MAX_NUMBERS_HELD // cores else 1
    has_much_python = is_python_bound and workers > 1 and len(tasks) >= MIN_TASKS_FOR_PROCESSES
    backend = "loky" if workers > MAX_THREADS or has_much_python else "threading"
    limits = ThreadpoolController()  # inspects all loaded libraries: once, not for every task

    def solve_in_thread(task: Task, seed: int) -> FloatArray:
        with limits.limit(limits=cores_per_task, user_api="openmp"):  # a new thread starts with OpenMP's own number
            return solve(task, seed)

    with (
        ignore_convergence_warnings(),  # filters belong to the process, so threads must not set them
        limits.limit(limits=1),  # BLAS threads within OpenMP threads may wait for each other forever
        parallel_config(backend, n_jobs=workers, inner_max_num_threads=1 if backend == "loky" else None),
    ):
        work = delayed(solve_in_thread if backend == "threading" else partial(_solve_in_process, solve))
        solved = Parallel(return_as="generator")(work(task, seed) for task, seed in zip(tasks, seeds, strict=True))
        return list(track_progress(solved, f"attacking: {label.lower()}", len(tasks)))


def _solve_in_process(solve: Callable[[Task, int], FloatArray], task: Task, seed: int) -> FloatArray:
    with ignore_convergence_warnings():
        return solve(task, seed)


@contextmanager
def ignore_convergence_warnings() -> Iterator[None]:
    """Ignore that a solver reached its last iteration.

    An attack is judged by its guesses on other users, converged or not.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield
