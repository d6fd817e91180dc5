"""Logistic regression and multilayer perceptrons for many tasks, trained as one batched tensor program.

All folds and seeds of an audit are independent problems of the same shape, so they are stacked, with one
batched product per layer (`backprop`). Each task is standardized and class-balanced by its own training
users; no task sees its test users before it is done.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch.nn import functional

from recveil.attacks.attribute.backprop import Layers, Network, forward
from recveil.attacks.attribute.tasks import Task
from recveil.core import device as devices
from recveil.core.progress import track
from recveil.core.random import torch_generator
from recveil.core.traits import AttackTraits
from recveil.core.types import FloatArray, IntArray

__all__ = ["Logistic", "Perceptron"]

METHODS = (
    AttackTraits("logistic", builder="Logistic", panels=("fast", "full"), rank=30),
    AttackTraits("mlp", builder="Perceptron", panels=("fast",), rank=160),
    AttackTraits("mlp-1", builder="Perceptron", options={"hidden": ()}, panels=("full",), rank=170),
    AttackTraits("mlp-2", builder="Perceptron", options={"hidden": (100,)}, panels=("full",), rank=180),
    AttackTraits("mlp-3", builder="Perceptron", options={"hidden": (100, 64)}, panels=("full",), rank=190),
    AttackTraits("mlp-4", builder="Perceptron", options={"hidden": (100, 64, 32)}, panels=("full",), rank=200),
)

ROOM = 1 << 26
"""Numbers held at once in the stacked inputs; more tasks than fit are done in several stacks."""

CACHE = 1 << 21
"""Numbers that stacks on the CPU work on again and again, so that they are still near when they are next needed."""

MOST_THREADS = 4
"""Stacks under way at once; more would wait for each other's Python."""

MOST_BATCHES = 500
"""Of one pass; above this the batches grow with the users."""

WARM_UP = 0.3
"""The share of the steps in which the learning rate rises."""


@dataclass(frozen=True, eq=False)
class Stack:
    """T tasks of about the same size, side by side; shorter ones are filled up with rows of weight 0.

    The tasks share one table, which is small enough to stay near; rows are standardized when they are asked for.
    """

    table: torch.Tensor  # (N, d)
    rows: torch.Tensor  # (T, n) training users, in an order of which any prefix is stratified
    y: torch.Tensor  # (T, n)
    weight: torch.Tensor  # (T, n) class-balanced, mean 1 over the real rows
    tests: torch.Tensor  # (T, m)
    mean: torch.Tensor  # (T, 1, d)
    spread: torch.Tensor  # (T, 1, d)

    def look_up(self, rows: torch.Tensor) -> torch.Tensor:
        """(T, k, d): these rows (T, k) of the table, standardized by each task's training users."""
        x = self.table.index_select(0, rows.flatten()).view(*rows.shape, -1)
        return x.sub_(self.mean).div_(self.spread)


Batch = tuple[torch.Tensor, torch.Tensor, torch.Tensor]  # x (T, size, d), y and weight (T, 1, size)
Solve = Callable[[Stack, np.random.Generator], torch.Tensor]


@dataclass(frozen=True)
class Logistic:
    """Multinomial logistic regression, class-balanced, with the ridge penalty of scikit-learn's default C.

    Departs: solved by accelerated steps with the fixed curvature bound of Bohning and Lindsay (1988), which needs one
    (d, d) factorization per task for any number of classes, and no line search.
    """

    C: float = 1.0
    steps: int = 100
    device: str | None = None

    def guess(
        self, x: FloatArray, y: IntArray, n_classes: int, tasks: Sequence[Task], *, rng: np.random.Generator
    ) -> list[FloatArray]:
        """Probabilities for the test users of each task."""
        where = devices.resolve(self.device)
        return _guess_stacks(
            lambda stack, _: self._solve(stack, n_classes), x, y, n_classes, tasks, rng=rng, where=where
        )

    def _solve(self, stack: Stack, n_classes: int) -> torch.Tensor:
        a = functional.pad(stack.look_up(stack.rows), (0, 1), value=1.0)  # (T, n, d + 1)
        # scikit-learn gives two classes one weight vector; split over two, the same penalty needs twice the ridge.
        ridge = torch.full(a.shape[-1:], (2 if n_classes == 2 else 1) / self.C, device=a.device)
        ridge[-1] = 1e-6  # the intercept is not penalized
        bound = torch.linalg.cholesky(0.5 * (a * stack.weight[..., None]).mT @ a + torch.diag(ridge))
        weight, truth = stack.weight[:, None], functional.one_hot(stack.y, n_classes).to(a.dtype).mT.contiguous()
        B = a.new_zeros(len(a), n_classes, a.shape[-1])  # (T, K, d + 1); users are columns, as in `backprop`
        ahead, momentum = B, 1.0
        for number in range(self.steps):
            gap = torch.softmax(ahead @ a.mT, 1).sub_(truth).mul_(weight)
            step = torch.cholesky_solve((gap @ a + ridge * ahead).mT, bound).mT
            following, momentum_next = ahead - step, (1 + (1 + 4 * momentum**2) ** 0.5) / 2
            ahead = following + (momentum - 1) / momentum_next * (following - B)
            B, momentum = following, momentum_next
            if number % 10 == 9 and float(step.abs().max()) < 1e-4:
                break
        return torch.softmax(stack.look_up(stack.tests) @ B[..., :-1].mT + B[..., -1:].mT, -1)


@dataclass(frozen=True)
class Perceptron:
    """A multilayer perceptron, class-balanced, early-stopped: of all passes the best for a held-out tenth is kept.

    One cycle of the learning rate (up to a high one, down to nothing) reaches in `epochs` passes what small constant
    steps reach in fifty. Few users get more passes, up to `steps` batches; very many get larger batches.
    """

    hidden: tuple[int, ...] = (100,)
    epochs: int = 3
    steps: int = 100
    learning_rate: float = 3.5e-2
    reg: float = 1e-3
    batch_size: int = 64
    device: str | None = None

    def guess(
        self, x: FloatArray, y: IntArray, n_classes: int, tasks: Sequence[Task], *, rng: np.random.Generator
    ) -> list[FloatArray]:
        """Probabilities for the test users of each task."""
        where = devices.resolve(self.device)
        sizes = (x.shape[1], *self.hidden, n_classes)

        def solve(stack: Stack, own: np.random.Generator) -> torch.Tensor:
            layers = self._train(stack, sizes, torch_generator(own, stack.table.device))
            return torch.softmax(forward(layers, stack.look_up(stack.tests)), 1).mT

        # AdamW holds each weight four times, and each output is held with its gradient.
        each = sum(4 * (fan_in + 1) * width + 2 * self.batch_size * width for fan_in, width in pairwise(sizes))
        return _guess_stacks(solve, x, y, n_classes, tasks, rng=rng, where=where, each=each)

    def _train(self, stack: Stack, sizes: tuple[int, ...], generator: torch.Generator) -> Layers:
        T, n = stack.rows.shape
        held = max(1, n // 10)
        n_fit = n - held
        per_pass = max(1, round(n_fit / max(self.batch_size, n_fit // MOST_BATCHES)))
        size = 8 * -(-n_fit // (8 * per_pass))  # in whole vectors of the processor: others cost half as much again
        passes = max(self.epochs, -(-self.steps // per_pass))
        network = Network(sizes, T, size, reg=self.reg, generator=generator)
        x, y, weight = stack.look_up(stack.rows[:, :held]), stack.y[:, :held], stack.weight[:, :held]
        best = torch.full((T,), torch.inf, device=x.device)
        for number in range(passes):
            for k, part in enumerate(_batches(stack, held, per_pass, size, generator), number * per_pass + 1):
                network.step(*part, rate=self.learning_rate * _cycle(k / (passes * per_pass + 1)))
            loss = _loss(forward(network.layers, x), y, weight)
            network.keep(loss < best)
            best = torch.minimum(loss, best)
        return network.kept


def _batches(stack: Stack, held: int, count: int, size: int, generator: torch.Generator) -> Iterator[Batch]:
    """One pass through the users after the first `held`; all tasks take theirs in the same random order.

    A few of the first come twice to fill the last batch. The weights of a batch add up to one.
    """
    T, n = stack.rows.shape
    order = torch.randperm(n - held, generator=generator, device=stack.rows.device)
    order = held + order[torch.arange(count * size, device=order.device) % len(order)]
    rows, y, weight = (t[:, order].view(T, count, size) for t in (stack.rows, stack.y, stack.weight))
    weight /= weight.sum(-1, keepdim=True).clamp(min=1e-12)
    return ((stack.look_up(rows[:, k]), y[:, None, k], weight[:, None, k]) for k in range(count))


def _cycle(done: float) -> float:
    """The share of the highest learning rate, when this share of all steps is done."""
    return done / WARM_UP if done < WARM_UP else 0.5 + 0.5 * math.cos(math.pi * (done - WARM_UP) / (1 - WARM_UP))


def _loss(logits: torch.Tensor, y: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """The weighted mean cross-entropy of each task; logits (T, K, n)."""
    each = functional.cross_entropy(logits, y, reduction="none")
    return (each * weight).sum(1) / weight.sum(1).clamp(min=1e-12)


def _guess_stacks(
    solve: Solve,
    x: FloatArray,
    y: IntArray,
    n_classes: int,
    tasks: Sequence[Task],
    *,
    rng: np.random.Generator,
    where: torch.device,
    each: int = 0,
) -> list[FloatArray]:
    """Solve the tasks stack by stack and hand the guesses back in the order of the tasks.

    `each` is how many numbers a task holds beside its users. A device of its own gets stacks as large as fit; the
    CPU such as stay in its cache, several at once.
    """
    table, labels = torch.tensor(_tame(x), device=where), torch.tensor(y, device=where)
    on_cpu = where.type == "cpu"
    n = max(len(t.train) for t in tasks)
    most = max(1, CACHE // (each or 2 * n * x.shape[1])) if on_cpu else len(tasks)
    groups = list(_alike(tasks, x.shape[1], most))[::-1]  # the longest first, so that no one waits for it at the end

    def one(numbers: list[int], seed: int) -> FloatArray:
        own, chosen = np.random.default_rng(seed), [tasks[i] for i in numbers]
        stack = _stack(table, labels, n_classes, chosen, [_spread(t.train, y, own) for t in chosen])
        return np.asarray(solve(stack, own).cpu())

    seeds = rng.integers(2**63 - 1, size=len(groups)).tolist()
    largest = max(len(group) for group in groups) * n * x.shape[1]
    workers = min(torch.get_num_threads(), MOST_THREADS, len(groups), ROOM // largest) if on_cpu else 1
    guesses: list[FloatArray] = [np.empty(0)] * len(tasks)
    solved = track(_in_threads(one, groups, seeds, workers), "attacking: neural", len(groups))
    for numbers, found in zip(groups, solved, strict=True):
        for i, guess in zip(numbers, found, strict=True):
            guesses[i] = guess[: len(tasks[i].test)]
    return guesses


def _in_threads(
    one: Callable[[list[int], int], FloatArray], groups: list[list[int]], seeds: list[int], workers: int
) -> Iterator[FloatArray]:
    """What `one` makes of each group, several at a time; what each does is then not itself spread over all cores."""
    if workers < 2:
        yield from map(one, groups, seeds)
        return
    cores = torch.get_num_threads()
    torch.set_num_threads(max(1, cores // workers))
    try:
        with ThreadPoolExecutor(workers) as pool:
            yield from pool.map(one, groups, seeds)
    finally:
        torch.set_num_threads(cores)


def _tame(x: FloatArray) -> FloatArray:
    """The table near 0 and 1, so that single precision holds it; each task standardizes by its own users after this."""
    wide = np.asarray(x, dtype=np.float64)
    spread = wide.std(0)
    return np.asarray((wide - wide.mean(0)) / np.where(spread > 0, spread, 1.0), dtype=np.float32)


def _alike(tasks: Sequence[Task], d: int, most: int = sys.maxsize) -> Iterator[list[int]]:
    """The numbers of the tasks, in groups of nearly the same size that fit into memory together, `most` in each."""
    by_size = sorted(range(len(tasks)), key=lambda i: len(tasks[i].train))
    group: list[int] = []
    for i in by_size:
        n = len(tasks[i].train)
        if group and (n > 1.1 * len(tasks[group[0]].train) or n * d * (len(group) + 1) > ROOM):
            yield from _evenly(group, most)
            group = []
        group.append(i)
    if group:
        yield from _evenly(group, most)


def _evenly(group: list[int], most: int) -> Iterator[list[int]]:
    size = -(-len(group) // -(-len(group) // most))
    return (group[start : start + size] for start in range(0, len(group), size))


def _spread(train: IntArray, y: IntArray, rng: np.random.Generator) -> IntArray:
    """The training users in a random order of which any prefix has every class in its share."""
    shuffled = rng.permutation(train)
    by_class = shuffled[np.argsort(y[shuffled], kind="stable")]
    counts = np.bincount(y[train])
    starts = np.cumsum(counts) - counts
    classes = y[by_class]
    place = (np.arange(len(train)) - starts[classes] + rng.random(len(train))) / counts[classes]
    return by_class[np.argsort(place)]


def _stack(
    table: torch.Tensor, labels: torch.Tensor, n_classes: int, tasks: list[Task], trains: list[IntArray]
) -> Stack:
    rows, real = _pad(trains, table.device)
    tests, _ = _pad([t.test for t in tasks], table.device)
    y = labels[rows]
    counts = torch.zeros(len(tasks), n_classes, device=table.device).scatter_add_(1, y, real)
    present = (counts > 0).sum(1, keepdim=True)
    weight = real * real.sum(1, keepdim=True) / (present * counts.gather(1, y))
    mean, spread = _moments(table, rows, real)
    return Stack(table, rows, y, weight, tests, mean, spread)


def _moments(table: torch.Tensor, rows: torch.Tensor, real: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean and standard deviation (T, 1, d) of each task's real rows, from one product with the whole table.

    A difference of squares needs double precision. What single precision cannot tell from a constant has spread 1.
    """
    share = torch.zeros(len(rows), len(table), dtype=torch.float64, device=table.device)
    share.scatter_add_(1, rows, real.double() / real.sum(1, keepdim=True))
    wide = table.double()
    mean, square = share @ wide, share @ wide.square_()
    variance = square - mean**2
    spread = torch.where(variance > 1e-12 * square, variance, 1.0).sqrt()
    return mean[:, None].float(), spread[:, None].float()


def _pad(rows: list[IntArray], where: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Row numbers as one (T, n) tensor, and 1.0 where a row is real."""
    n = max(map(len, rows))
    padded = np.stack([np.pad(r, (0, n - len(r)), mode="wrap") for r in rows])
    real = np.arange(n) < np.array([[len(r)] for r in rows])
    return torch.as_tensor(padded, device=where), torch.as_tensor(real, device=where).float()
