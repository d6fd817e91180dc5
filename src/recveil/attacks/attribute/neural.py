"""Logistic regression and multilayer perceptrons for many tasks, trained as one batched tensor program.

All folds and seeds of an audit are independent problems of the same shape, so they are stacked: (T, n, d) inputs,
(T, d, h) weights, one batched product per layer. Each task is standardized and class-balanced by its own training
users; no task sees its test users before it is done.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch.nn import functional

from recveil import device as devices
from recveil.attacks.attribute.tasks import Task
from recveil.core import FloatArray, IntArray
from recveil.progress import track
from recveil.random import torch_generator

__all__ = ["Logistic", "Perceptron"]

ROOM = 1 << 26
"""Numbers held at once in the stacked inputs; more tasks than fit are done in several stacks."""

MOST_BATCHES = 500
"""Of one pass; above this the batches grow with the users."""

WARM_UP = 0.15
"""The share of the steps in which the learning rate rises."""

EAGER_STEPS = 3
"""Steps before one is recorded, in which the device sets up what must not be set up while recording."""

Layers = list[tuple[torch.Tensor, torch.Tensor]]
Batch = Sequence[torch.Tensor]  # x (T, size, d), y (T, size), weight (T, size)


@dataclass(frozen=True, eq=False)
class Stack:
    """T tasks of about the same size, side by side; shorter ones are filled up with rows of weight 0."""

    x: torch.Tensor  # (T, n, d) standardized training rows, in an order of which any prefix is stratified
    y: torch.Tensor  # (T, n)
    weight: torch.Tensor  # (T, n) class-balanced, mean 1 over the real rows
    test: torch.Tensor  # (T, m, d)

    def rows(self, start: int, stop: int) -> Stack:
        """The same tasks with only these training rows."""
        return Stack(self.x[:, start:stop], self.y[:, start:stop], self.weight[:, start:stop], self.test)


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
        return _guess_stacks(lambda stack: self._solve(stack, n_classes), x, y, n_classes, tasks, rng=rng, where=where)

    def _solve(self, stack: Stack, n_classes: int) -> torch.Tensor:
        a = functional.pad(stack.x, (0, 1), value=1.0)  # (T, n, d + 1)
        weighted = a * stack.weight[..., None]
        # scikit-learn gives two classes one weight vector; split over two, the same penalty needs twice the ridge.
        ridge = torch.full(a.shape[-1:], (2 if n_classes == 2 else 1) / self.C, device=a.device)
        ridge[-1] = 1e-6  # the intercept is not penalized
        bound = torch.linalg.cholesky(0.5 * weighted.mT @ a + torch.diag(ridge))
        truth = functional.one_hot(stack.y, n_classes).to(a.dtype)
        B = a.new_zeros(len(a), a.shape[-1], n_classes)  # (T, d + 1, K)
        ahead, momentum = B, 1.0
        for number in range(self.steps):
            gap = torch.softmax(a @ ahead, -1) - truth
            step = torch.cholesky_solve(weighted.mT @ gap + ridge[:, None] * ahead, bound)
            following, momentum_next = ahead - step, (1 + (1 + 4 * momentum**2) ** 0.5) / 2
            ahead = following + (momentum - 1) / momentum_next * (following - B)
            B, momentum = following, momentum_next
            if number % 10 == 9 and float(step.abs().max()) < 1e-4:
                break
        return torch.softmax(stack.test @ B[:, :-1] + B[:, -1:], -1)


@dataclass(frozen=True)
class Perceptron:
    """A multilayer perceptron, class-balanced, early-stopped: of all passes the best for a held-out tenth is kept.

    One cycle of the learning rate (up to a high one, down to nothing) reaches in `epochs` passes what small constant
    steps reach in fifty. Few users get more passes, up to `steps` batches; very many get larger batches.
    """

    hidden: tuple[int, ...] = (100,)
    epochs: int = 5
    steps: int = 150
    learning_rate: float = 2e-2
    reg: float = 1e-3
    batch_size: int = 64
    device: str | None = None

    def guess(
        self, x: FloatArray, y: IntArray, n_classes: int, tasks: Sequence[Task], *, rng: np.random.Generator
    ) -> list[FloatArray]:
        """Probabilities for the test users of each task."""
        where = devices.resolve(self.device)
        generator = torch_generator(rng, where)

        def solve(stack: Stack) -> torch.Tensor:
            layers = self._train(stack, n_classes, generator)
            with torch.no_grad():
                return torch.softmax(_forward(layers, stack.test), -1)

        return _guess_stacks(solve, x, y, n_classes, tasks, rng=rng, where=where)

    def _train(self, stack: Stack, n_classes: int, generator: torch.Generator) -> Layers:
        held = max(1, stack.x.shape[1] // 10)
        stop_on, fit_on = stack.rows(0, held), stack.rows(held, stack.x.shape[1])
        layers = _new_layers((stack.x.shape[-1], *self.hidden, n_classes), len(stack.x), generator)
        flat = [p for layer in layers for p in layer]
        batch = max(self.batch_size, fit_on.x.shape[1] // MOST_BATCHES)
        per_pass = -(-fit_on.x.shape[1] // batch)
        passes = max(self.epochs, -(-self.steps // per_pass))
        step = _Step(layers, self.learning_rate, self.reg)
        best = torch.full((len(stack.x),), torch.inf, device=stack.x.device)
        kept = [p.detach().clone() for p in flat]
        for number in track(range(passes), "attacking: perceptron", passes):
            done = [(number * per_pass + k + 1) / (passes * per_pass + 1) for k in range(per_pass)]
            for part, share in zip(_batches(fit_on, per_pass, generator), done, strict=True):
                step(part, self.learning_rate * _cycle(share))
            with torch.no_grad():
                loss = _loss(_forward(layers, stop_on.x), stop_on.y, stop_on.weight)
                better = loss < best
                best = torch.where(better, loss, best)
                for k, p in zip(kept, flat, strict=True):
                    k.copy_(torch.where(better[:, None, None], p, k))
        return [(kept[i], kept[i + 1]) for i in range(0, len(kept), 2)]


class _Step:
    """One step of AdamW for all tasks; on CUDA recorded once and then replayed: its kernels are too short to launch.

    What is recorded reads from fixed places, into which every batch is copied.
    """

    def __init__(self, layers: Layers, rate: float, reg: float) -> None:
        self.layers, self.done = layers, 0
        flat = [p for layer in layers for p in layer]
        self.rate = torch.tensor(rate, device=flat[0].device)
        on_cuda = flat[0].is_cuda
        self.optimizer = torch.optim.AdamW(flat, lr=self.rate, weight_decay=reg, fused=True, capturable=on_cuda)
        self.graph = torch.cuda.CUDAGraph() if on_cuda else None

    def __call__(self, part: Batch, rate: float) -> None:
        self.rate.fill_(rate)
        if self.graph is None or self.done < EAGER_STEPS:
            self._step(part)
        else:
            if self.done == EAGER_STEPS:
                self._record(part)
            for place, given in zip(self.places, part, strict=True):
                place.copy_(given)
            self.graph.replay()
        self.done += 1

    def _record(self, part: Batch) -> None:
        assert self.graph is not None
        self.places = [given.clone() for given in part]
        self.optimizer.zero_grad(set_to_none=True)
        with torch.cuda.graph(self.graph):
            self._step(self.places)

    def _step(self, part: Batch) -> None:
        x, y, weight = part
        self.optimizer.zero_grad(set_to_none=True)
        _loss(_forward(self.layers, x), y, weight).sum().backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()


def _batches(stack: Stack, count: int, generator: torch.Generator) -> Iterator[Batch]:
    """One pass in `count` batches of one size; all tasks take their rows in the same random order.

    A few of the first rows come twice to fill the last batch.
    """
    n = stack.x.shape[1]
    size = -(-n // count)
    order = torch.randperm(n, generator=generator, device=stack.x.device)
    order = torch.cat([order, order[: count * size - n]])
    parts = (torch.split(t[:, order], size, dim=1) for t in (stack.x, stack.y, stack.weight))
    return zip(*parts, strict=True)


def _cycle(done: float) -> float:
    """The share of the highest learning rate, when this share of all steps is done."""
    return done / WARM_UP if done < WARM_UP else 0.5 + 0.5 * math.cos(math.pi * (done - WARM_UP) / (1 - WARM_UP))


def _new_layers(sizes: tuple[int, ...], T: int, generator: torch.Generator) -> Layers:
    layers = []
    for fan_in, fan_out in zip(sizes[:-1], sizes[1:], strict=True):
        W = torch.randn(T, fan_in, fan_out, generator=generator, device=generator.device) * (2 / fan_in) ** 0.5
        b = torch.zeros(T, 1, fan_out, device=generator.device)
        layers.append((W.requires_grad_(), b.requires_grad_()))
    return layers


def _forward(layers: Layers, x: torch.Tensor) -> torch.Tensor:
    for W, b in layers[:-1]:
        x = torch.relu(torch.baddbmm(b, x, W))
    W, b = layers[-1]
    return torch.baddbmm(b, x, W)


def _loss(logits: torch.Tensor, y: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """The weighted mean cross-entropy of each task."""
    each = functional.cross_entropy(logits.flatten(0, 1), y.flatten(), reduction="none").view_as(weight)
    return (each * weight).sum(1) / weight.sum(1).clamp(min=1e-12)


def _guess_stacks(
    solve: Callable[[Stack], torch.Tensor],
    x: FloatArray,
    y: IntArray,
    n_classes: int,
    tasks: Sequence[Task],
    *,
    rng: np.random.Generator,
    where: torch.device,
) -> list[FloatArray]:
    """Solve the tasks stack by stack and hand the guesses back in the order of the tasks."""
    table, labels = torch.tensor(_tame(x), device=where), torch.tensor(y, device=where)
    guesses: list[FloatArray] = [np.empty(0)] * len(tasks)
    for numbers in _alike(tasks, x.shape[1]):
        chosen = [tasks[i] for i in numbers]
        solved = solve(_stack(table, labels, n_classes, chosen, [_spread(t.train, y, rng) for t in chosen]))
        for i, guess in zip(numbers, solved.cpu().numpy(), strict=True):
            guesses[i] = guess[: len(tasks[i].test)]
    return guesses


def _tame(x: FloatArray) -> FloatArray:
    """The table near 0 and 1, so that single precision holds it; each task standardizes by its own users after this."""
    wide = np.asarray(x, dtype=np.float64)
    spread = wide.std(0)
    return np.asarray((wide - wide.mean(0)) / np.where(spread > 0, spread, 1.0), dtype=np.float32)


def _alike(tasks: Sequence[Task], d: int) -> Iterator[list[int]]:
    """The numbers of the tasks, in groups of nearly the same size that fit into memory together."""
    by_size = sorted(range(len(tasks)), key=lambda i: len(tasks[i].train))
    group: list[int] = []
    for i in by_size:
        n = len(tasks[i].train)
        if group and (n > 1.1 * len(tasks[group[0]].train) or n * d * (len(group) + 1) > ROOM):
            yield group
            group = []
        group.append(i)
    if group:
        yield group


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
    share = (real / real.sum(1, keepdim=True))[..., None]
    x = table[rows]
    mean = (share * x).sum(1, keepdim=True)
    spread = (share * (x - mean) ** 2).sum(1, keepdim=True).sqrt()
    spread = torch.where(spread > 0, spread, 1.0)
    return Stack((x - mean) / spread, y, weight, (table[tests] - mean) / spread)


def _pad(rows: list[IntArray], where: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Row numbers as one (T, n) tensor, and 1.0 where a row is real."""
    n = max(map(len, rows))
    padded = np.stack([np.pad(r, (0, n - len(r)), mode="wrap") for r in rows])
    real = np.arange(n) < np.array([[len(r)] for r in rows])
    return torch.as_tensor(padded, device=where), torch.as_tensor(real, device=where).float()
