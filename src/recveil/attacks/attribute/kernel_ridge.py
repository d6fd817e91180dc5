"""Kernel ridge regression of the class, with Gaussian and Laplace kernels, class-balanced.

On tables with uneven activity it finds what trees and networks miss: classes that differ in small neighborhoods.
Kernels centered at a sample of the users (Nystroem) miss that, so the regression is exact, by conjugate gradients.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from recveil.attacks.attribute.classic import compute_balanced_weights
from recveil.attacks.attribute.tasks import Task, find_enclosing_tasks, run_tasks
from recveil.core.device import resolve_device
from recveil.core.option_types import Count
from recveil.core.traits import AttackTraits
from recveil.core.types import FloatArray, IntArray
from recveil.transport.kernel_regression import (
    KernelSetting,
    RidgeFit,
    choose_settings,
    compute_kernel,
    solve_ridges,
)

__all__ = ["KernelRidge"]

METHODS = (AttackTraits("kernel-ridge", builder="KernelRidge", panels=("full", "strong"), rank=95),)

MAX_CLASSES_AT_FULL_SIZE = 8
"""Above this many classes fewer users are learned from, so that the cost stays the same."""

BLOCK_ROWS = 2_048
"""Users whose kernel values are held at once when guesses are made."""


@dataclass(frozen=True)
class KernelRidge:
    """Kernel ridge regression of the class, class-balanced and exact.

    Kernel, bandwidth and ridge are chosen for each task on two quarters of up to 5,000 training users; tasks that learn
    from a part of another task's users, as inner folds do, take its setting. All tasks share the kernel matrices of all
    users, in which users that a task does not know have weight 0. If that is more than `max_users`, or twice what a
    task knows, each has matrices of its own, and learns from at most `max_users`, since their square is held.
    """

    max_users: Count = 12_000
    device: str | None = None

    def pools_repeats(self, n_users: int, n_classes: int) -> bool:
        """Tell whether all repeats share the kernel matrices of all users: with many classes that gains nothing."""
        return n_classes == 2 and n_users <= self.max_users

    def guess(
        self, x: FloatArray, y: IntArray, n_classes: int, tasks: Sequence[Task], *, rng: np.random.Generator
    ) -> list[FloatArray]:
        """Return the predicted class indicators for the test users of each task, cut to probabilities."""
        enclosing = find_enclosing_tasks(tasks)
        known = np.unique(np.concatenate([task.train for task in tasks]))
        most = self._limit_users(y[known])
        groups = {0: list(range(len(tasks)))}
        if len(known) > min(most, 2 * max(len(task.train) for task in tasks)):
            groups = {i: [k for k, outer in enumerate(enclosing) if outer == i] for i in sorted(set(enclosing))}
        shared = {Task(known if len(groups) == 1 else tasks[i].train, known): own for i, own in groups.items()}

        def solve(group: Task, seed: int) -> FloatArray:
            members = [tasks[k] for k in shared[group]]
            choosers = [shared[group].index(enclosing[k]) for k in shared[group]]
            # Where all tasks share the matrices, other repeats do not change the order in which users choose a setting.
            rows = _draw_users(group.train, y, members, most, seed if len(groups) > 1 else 0)
            table = _standardize(x, group.train)
            return np.concatenate(self._solve_group(table, rows, y, n_classes, members, choosers))

        size = 2 * min(most, max(len(group.train) for group in shared)) ** 2
        solved = run_tasks(solve, list(shared), size=size, label="kernel ridge", rng=rng)
        guesses: list[FloatArray] = [np.empty(0)] * len(tasks)
        for numbers, beliefs in zip(groups.values(), solved, strict=True):
            ends = np.cumsum([len(tasks[k].test) for k in numbers])
            for k, part in zip(numbers, np.split(beliefs, ends[:-1]), strict=True):
                guesses[k] = part
        return guesses

    def _limit_users(self, known: IntArray) -> int:
        """Return how many users are learned from together: fewer where there are many classes."""
        return int(self.max_users * min(1.0, MAX_CLASSES_AT_FULL_SIZE / len(np.unique(known))) ** 0.5)

    def _solve_group(
        self, table: FloatArray, rows: IntArray, y: IntArray, n_classes: int, tasks: Sequence[Task], choosers: list[int]
    ) -> list[FloatArray]:
        """Solve tasks together: those of one setting are columns of one system.

        Args:
            table: standardized vectors of all users.
            rows: users who are learned from, in random order.
            y: class of each user.
            n_classes: number of classes.
            tasks: the tasks.
            choosers: for each task the number of the one whose users choose its setting.
        """
        users = torch.as_tensor(table[rows], device=resolve_device(self.device))
        columns = 1 if n_classes == 2 else n_classes  # of two classes one column is enough: the other is the rest
        targets = torch.as_tensor(np.eye(n_classes, dtype=np.float32)[y[rows], :columns], device=users.device)
        weights = torch.as_tensor(np.stack([_weigh_users(y, rows, task) for task in tasks], 1), device=users.device)
        first = sorted(set(choosers))
        settings = dict(zip(first, choose_settings(users, targets, weights[:, first]), strict=True))
        guesses: list[FloatArray] = [np.empty(0)] * len(tasks)
        for setting in dict.fromkeys(settings.values()):
            own = [k for k, chooser in enumerate(choosers) if settings[chooser] == setting]
            problems = {tasks[k].train.tobytes(): k for k in own}  # inner folds of two folds may learn from the same
            gram = compute_kernel(users, users, setting)
            known = weights[:, list(problems.values())].repeat_interleave(columns, 1)
            fit = solve_ridges(gram, targets.repeat(1, len(problems)), known, [setting.ridge])
            others = np.setdiff1d(np.concatenate([tasks[k].test for k in own]), rows)
            outside = _predict(torch.as_tensor(table[others], device=users.device), users, setting, fit)
            place = np.full(len(table), -1)
            place[np.concatenate([rows, others])] = np.arange(len(rows) + len(others))
            beliefs = torch.cat([fit.guesses[0], outside]).reshape(-1, len(problems), columns)
            number_of = {train: number for number, train in enumerate(problems)}
            for k in own:
                number = number_of[tasks[k].train.tobytes()]
                guesses[k] = _cut_to_probabilities(beliefs[torch.as_tensor(place[tasks[k].test]), number])
        return guesses


def _draw_users(train: IntArray, y: IntArray, members: Sequence[Task], most: int, seed: int) -> IntArray:
    """Draw the users to learn from, in random order: at most `most`, and one of every class in every task."""
    order = np.random.default_rng(seed).permutation(train)
    if len(order) <= most:
        return np.asarray(order)
    needed = [order[np.isin(order, task.train)] for task in members]
    first_of_class = np.unique(np.concatenate([rows[np.unique(y[rows], return_index=True)[1]] for rows in needed]))
    rest = order[~np.isin(order, first_of_class)]
    return np.asarray(np.concatenate([rest[: max(0, most - len(first_of_class))], first_of_class]))


def _standardize(x: FloatArray, train: IntArray) -> FloatArray:
    """Give the columns mean 0 and variance 1 on the training users."""
    wide = np.asarray(x, dtype=np.float64)
    spread = wide[train].std(0)
    return np.asarray((wide - wide[train].mean(0)) / np.where(spread > 0, spread, 1.0), dtype=np.float32)


def _weigh_users(y: IntArray, rows: IntArray, task: Task) -> FloatArray:
    """Return class-balanced weights of the task's training users among these rows, and 0 for the others."""
    is_known = np.isin(rows, task.train)
    weights = np.zeros(len(rows), dtype=np.float32)
    weights[is_known] = compute_balanced_weights(y[rows[is_known]])
    return weights


def _predict(x: torch.Tensor, users: torch.Tensor, setting: KernelSetting, fit: RidgeFit) -> torch.Tensor:
    blocks = torch.split(x, BLOCK_ROWS)
    return torch.cat([compute_kernel(block, users, setting) @ fit.coefficients[0] + fit.mean for block in blocks])


def _cut_to_probabilities(beliefs: torch.Tensor) -> FloatArray:
    beliefs = (torch.cat([beliefs, 1 - beliefs], 1) if beliefs.shape[1] == 1 else beliefs).clamp(min=1e-6)
    return np.asarray((beliefs / beliefs.sum(1, keepdim=True)).cpu().numpy(), dtype=np.float64)
