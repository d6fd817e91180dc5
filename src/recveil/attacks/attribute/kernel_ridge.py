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
from recveil.transport.kernel_regression import KernelSetting, choose_setting, compute_kernel, solve_ridge

__all__ = ["KernelRidge"]

METHODS = (AttackTraits("kernel-ridge", builder="KernelRidge", panels=("full", "strong"), rank=95),)

MAX_CLASSES_AT_FULL_SIZE = 8
"""Above this many classes fewer users are learned from, so that the cost stays the same."""

BLOCK_ROWS = 2_048
"""Users whose kernel values are held at once when guesses are made."""


@dataclass(frozen=True)
class KernelRidge:
    """Kernel ridge regression of the class, class-balanced and exact.

    Kernel, bandwidth and ridge are chosen on an inner split of up to 5,000 training users. Tasks that learn from a part
    of another task's users, as inner folds do, share its columns' units, its setting and its kernel matrix. Above
    `max_users` training users it learns from a sample of them, since time and memory grow with their square.
    """

    max_users: Count = 12_000
    device: str | None = None

    def guess(
        self, x: FloatArray, y: IntArray, n_classes: int, tasks: Sequence[Task], *, rng: np.random.Generator
    ) -> list[FloatArray]:
        """Return the predicted class indicators for the test users of each task, cut to probabilities."""
        enclosing = find_enclosing_tasks(tasks)
        outer = sorted(set(enclosing))
        members = {id(tasks[i]): [tasks[k] for k in range(len(tasks)) if enclosing[k] == i] for i in outer}

        def solve(task: Task, seed: int) -> FloatArray:
            return np.concatenate(self._solve_together(x, y, n_classes, task, members[id(task)], seed))

        largest = min(self.max_users, max(len(task.train) for task in tasks))
        solved = run_tasks(solve, [tasks[i] for i in outer], size=2 * largest**2, label="kernel ridge", rng=rng)
        guesses: list[FloatArray] = [np.empty(0)] * len(tasks)
        for i, beliefs in zip(outer, solved, strict=True):
            numbers = [k for k in range(len(tasks)) if enclosing[k] == i]
            ends = np.cumsum([len(tasks[k].test) for k in numbers])
            for k, part in zip(numbers, np.split(beliefs, ends[:-1]), strict=True):
                guesses[k] = part
        return guesses

    def _solve_together(
        self, x: FloatArray, y: IntArray, n_classes: int, outer: Task, members: Sequence[Task], seed: int
    ) -> list[FloatArray]:
        """Solve tasks that learn from users of `outer`: columns of one system, in which other users have weight 0."""
        rows = self._sample_users(outer.train, y, members, seed)
        table, device = _standardize(x, outer.train), resolve_device(self.device)
        users = torch.as_tensor(table[rows], device=device)
        columns = 1 if n_classes == 2 else n_classes  # of two classes one column is enough: the other is the rest
        targets = torch.as_tensor(np.eye(n_classes, dtype=np.float32)[y[rows], :columns], device=device)
        weights = [torch.as_tensor(_weigh_users(y, rows, task), device=device) for task in (outer, *members)]
        setting = choose_setting(users, targets, weights[0])
        precision = torch.stack(weights[1:], 1).repeat_interleave(columns, 1) / setting.ridge
        gram = compute_kernel(users, users, setting)
        coefficients, mean = solve_ridge(gram, targets.repeat(1, len(members)), precision)
        inside = gram @ coefficients + mean
        guesses = []
        for number, task in enumerate(members):
            own = slice(number * columns, (number + 1) * columns)
            place = np.full(len(x), -1)
            place[rows] = np.arange(len(rows))
            is_inside = place[task.test] >= 0
            beliefs = torch.empty(len(task.test), columns, device=device)
            beliefs[torch.as_tensor(is_inside)] = inside[torch.as_tensor(place[task.test[is_inside]]), own]
            others = torch.as_tensor(table[task.test[~is_inside]], device=device)
            guess = _predict(others, users, setting, coefficients[:, own])
            beliefs[torch.as_tensor(~is_inside)] = guess + mean[own]
            guesses.append(_cut_to_probabilities(beliefs))
        return guesses

    def _sample_users(self, train: IntArray, y: IntArray, members: Sequence[Task], seed: int) -> IntArray:
        """Draw the users to learn from, in random order: at most `max_users`, and one of every class in every task."""
        order = np.random.default_rng(seed).permutation(train)
        n_classes = len(np.unique(y[train]))
        most = int(self.max_users * min(1.0, MAX_CLASSES_AT_FULL_SIZE / n_classes) ** 0.5)
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


def _predict(x: torch.Tensor, users: torch.Tensor, setting: KernelSetting, coefficients: torch.Tensor) -> torch.Tensor:
    blocks = torch.split(x, BLOCK_ROWS)
    return torch.cat([compute_kernel(block, users, setting) @ coefficients for block in blocks])


def _cut_to_probabilities(beliefs: torch.Tensor) -> FloatArray:
    beliefs = (torch.cat([beliefs, 1 - beliefs], 1) if beliefs.shape[1] == 1 else beliefs).clamp(min=1e-6)
    return np.asarray((beliefs / beliefs.sum(1, keepdim=True)).cpu().numpy(), dtype=np.float64)
