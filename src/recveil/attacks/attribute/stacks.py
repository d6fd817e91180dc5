"""Stacks of tasks: all folds of an audit as one batched tensor problem.

The tasks of an audit are independent problems of nearly the same shape. Stacked, each layer of each model is one
batched product. Every task is standardized and class-balanced by its own training users.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch

from recveil.attacks.attribute.tasks import Task, share_fits
from recveil.core.progress import track_progress
from recveil.core.types import FloatArray, IntArray

__all__ = ["TaskStack", "guess_in_stacks"]

MAX_NUMBERS_HELD = 1 << 26
"""Numbers held at once in the stacked inputs; more tasks than fit are solved in several stacks."""

CACHED_NUMBERS = 1 << 21
"""Numbers that a stack on the CPU works on repeatedly, so that they stay in the processor's cache."""

MAX_THREADS = 4
"""Stacks that run at once; more would wait for each other's Python."""

SIZE_RATIO = 1.1
"""Training users of the largest task of a stack, relative to the smallest."""


@dataclass(frozen=True, eq=False)
class TaskStack:
    """T tasks of about the same size, side by side.

    Shorter ones are padded with rows of weight 0. The tasks share one table, which is small enough to stay in the
    cache; rows are standardized when they are read.
    """

    table: torch.Tensor  # (N, d)
    rows: torch.Tensor  # (T, n) training users, in an order of which any prefix is stratified
    y: torch.Tensor  # (T, n)
    weight: torch.Tensor  # (T, n) class-balanced, mean 1 over the rows that are not padding
    test_rows: torch.Tensor  # (T, m)
    mean: torch.Tensor  # (T, 1, d)
    spread: torch.Tensor  # (T, 1, d)

    def look_up_rows(self, rows: torch.Tensor) -> torch.Tensor:
        """Return these rows (T, k) of the table as (T, k, d), standardized by task."""
        x = self.table.index_select(0, rows.flatten()).view(*rows.shape, -1)
        return x.sub_(self.mean).div_(self.spread)


SolveStack = Callable[[TaskStack, np.random.Generator], torch.Tensor]
"""Takes a stack and a generator; returns the beliefs (T, m, K) about its test users."""


def guess_in_stacks(
    solve: SolveStack,
    x: FloatArray,
    y: IntArray,
    n_classes: int,
    tasks: Sequence[Task],
    *,
    rng: np.random.Generator,
    device: torch.device,
    numbers_per_task: int = 0,
) -> list[FloatArray]:
    """Solve the tasks stack by stack and return their guesses in order.

    An accelerator gets stacks as large as fit. The CPU gets stacks that stay in its cache, several at once.

    Args:
        solve: solves one stack.
        x: user vectors.
        y: class of each user.
        n_classes: number of classes.
        tasks: the tasks.
        rng: source of randomness.
        device: where the stacks are solved.
        numbers_per_task: numbers that a task holds beside its users, such as weights.
    """

    def guess(merged: Sequence[Task]) -> list[FloatArray]:
        return _guess_merged(solve, x, y, n_classes, merged, rng, device, numbers_per_task)

    return share_fits(guess, tasks)


def _guess_merged(
    solve: SolveStack,
    x: FloatArray,
    y: IntArray,
    n_classes: int,
    tasks: Sequence[Task],
    rng: np.random.Generator,
    device: torch.device,
    numbers_per_task: int,
) -> list[FloatArray]:
    known = np.unique(np.concatenate([task.train for task in tasks]))
    table, labels = torch.tensor(_standardize_table(x, known), device=device), torch.tensor(y, device=device)
    on_cpu = device.type == "cpu"
    n = max(len(t.train) for t in tasks)
    max_tasks = max(1, CACHED_NUMBERS // (numbers_per_task or 2 * n * x.shape[1])) if on_cpu else len(tasks)
    groups = list(_group_by_size(tasks, x.shape[1], max_tasks))[::-1]  # the longest first, to finish together

    def solve_group(numbers: list[int], seed: int) -> FloatArray:
        rng, members = np.random.default_rng(seed), [tasks[i] for i in numbers]
        train_rows = [_shuffle_stratified(t.train, y, rng) for t in members]
        stack = _build_stack(table, labels, n_classes, members, train_rows)
        return np.asarray(solve(stack, rng).cpu())

    seeds = rng.integers(2**63 - 1, size=len(groups)).tolist()
    largest = max(len(group) for group in groups) * n * x.shape[1]
    workers = min(torch.get_num_threads(), MAX_THREADS, len(groups), MAX_NUMBERS_HELD // largest) if on_cpu else 1
    guesses: list[FloatArray] = [np.empty(0)] * len(tasks)
    solved = track_progress(_map_in_threads(solve_group, groups, seeds, workers), "attacking: neural", len(groups))
    for numbers, beliefs in zip(groups, solved, strict=True):
        for i, guess in zip(numbers, beliefs, strict=True):
            guesses[i] = guess[: len(tasks[i].test)]
    return guesses


def _map_in_threads(
    solve: Callable[[list[int], int], FloatArray], groups: list[list[int]], seeds: list[int], workers: int
) -> Iterator[FloatArray]:
    """Solve the groups, several at a time, each with its share of the cores."""
    if workers < 2:
        yield from map(solve, groups, seeds)
        return
    cores = torch.get_num_threads()
    torch.set_num_threads(max(1, cores // workers))
    try:
        with ThreadPoolExecutor(workers) as pool:
            yield from pool.map(solve, groups, seeds)
    finally:
        torch.set_num_threads(cores)


def _standardize_table(x: FloatArray, known: IntArray) -> FloatArray:
    """Standardize the whole table by the known users, so that single precision holds it.

    Each task is later standardized by its own training users.
    """
    wide = np.asarray(x, dtype=np.float64)
    mean, spread = wide[known].mean(0), wide[known].std(0)
    return np.asarray((wide - mean) / np.where(spread > 0, spread, 1.0), dtype=np.float32)


def _group_by_size(tasks: Sequence[Task], d: int, max_tasks: int = sys.maxsize) -> Iterator[list[int]]:
    """Group the numbers of tasks of nearly equal size.

    A group has at most `max_tasks` tasks and fits into memory.
    """
    by_size = sorted(range(len(tasks)), key=lambda i: len(tasks[i].train))
    group: list[int] = []
    for i in by_size:
        n = len(tasks[i].train)
        is_much_larger = bool(group) and n > SIZE_RATIO * len(tasks[group[0]].train)
        if group and (is_much_larger or n * d * (len(group) + 1) > MAX_NUMBERS_HELD):
            yield from _split_evenly(group, max_tasks)
            group = []
        group.append(i)
    if group:
        yield from _split_evenly(group, max_tasks)


def _split_evenly(group: list[int], max_size: int) -> Iterator[list[int]]:
    size = -(-len(group) // -(-len(group) // max_size))
    return (group[start : start + size] for start in range(0, len(group), size))


def _shuffle_stratified(train: IntArray, y: IntArray, rng: np.random.Generator) -> IntArray:
    """Shuffle the training users so that any prefix has every class in its share."""
    shuffled = rng.permutation(train)
    by_class = shuffled[np.argsort(y[shuffled], kind="stable")]
    counts = np.bincount(y[train])
    starts = np.cumsum(counts) - counts
    classes = y[by_class]
    place = (np.arange(len(train)) - starts[classes] + rng.random(len(train))) / counts[classes]
    return by_class[np.argsort(place)]


def _build_stack(
    table: torch.Tensor, labels: torch.Tensor, n_classes: int, tasks: list[Task], train_rows: list[IntArray]
) -> TaskStack:
    rows, is_real = _pad_rows(train_rows, table.device)
    test_rows, _ = _pad_rows([t.test for t in tasks], table.device)
    y = labels[rows]
    counts = torch.zeros(len(tasks), n_classes, device=table.device).scatter_add_(1, y, is_real)
    n_present = (counts > 0).sum(1, keepdim=True)
    weight = is_real * is_real.sum(1, keepdim=True) / (n_present * counts.gather(1, y))
    mean, spread = _compute_moments(table, rows, is_real)
    return TaskStack(table, rows, y, weight, test_rows, mean, spread)


def _compute_moments(
    table: torch.Tensor, rows: torch.Tensor, is_real: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute mean and standard deviation (T, 1, d) of each task's rows.

    One product with the whole table gives both. A difference of squares needs double precision. Columns that single
    precision cannot tell from a constant get spread 1.
    """
    share = torch.zeros(len(rows), len(table), dtype=torch.float64, device=table.device)
    share.scatter_add_(1, rows, is_real.double() / is_real.sum(1, keepdim=True))
    wide = table.double()
    mean, square = share @ wide, share @ wide.square_()
    variance = square - mean**2
    spread = torch.where(variance > 1e-12 * square, variance, 1.0).sqrt()
    return mean[:, None].float(), spread[:, None].float()


def _pad_rows(rows: list[IntArray], device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Return row numbers as one (T, n) tensor, and 1.0 for rows that are not padding."""
    n = max(map(len, rows))
    padded = np.stack([np.pad(r, (0, n - len(r)), mode="wrap") for r in rows])
    is_real = np.arange(n) < np.array([[len(r)] for r in rows])
    return torch.as_tensor(padded, device=device), torch.as_tensor(is_real, device=device).float()
