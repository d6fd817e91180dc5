"""Logistic regression and perceptrons for many tasks at once, as tensor programs.

Each task is standardized and class-balanced by its own training users (`stacks`); its test users are read after its
training.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch.nn import functional

from recveil.attacks.attribute.backprop import Layers, Network, forward
from recveil.attacks.attribute.stacks import TaskStack, guess_in_stacks
from recveil.attacks.attribute.tasks import Task
from recveil.core.device import resolve_device
from recveil.core.option_types import Count, NonNegativeFloat, PositiveFloat, Width
from recveil.core.random import make_torch_generator
from recveil.core.traits import AttackTraits
from recveil.core.types import FloatArray, IntArray

__all__ = ["Logistic", "Perceptron"]

METHODS = (
    AttackTraits("logistic", builder="Logistic", panels=("fast", "full", "two-releases", "two-releases-many"), rank=30),
    AttackTraits("mlp", builder="Perceptron", panels=("fast",), rank=160),
    AttackTraits(
        "mlp-1",
        builder="Perceptron",
        summary="A perceptron without hidden layers, class-balanced.",
        options={"hidden": ()},
        panels=("full",),
        rank=170,
    ),
    AttackTraits(
        "mlp-2",
        builder="Perceptron",
        summary="A perceptron with one hidden layer, class-balanced.",
        options={"hidden": (100,)},
        panels=("full",),
        rank=180,
    ),
    AttackTraits(
        "mlp-3",
        builder="Perceptron",
        summary="A perceptron with two hidden layers, class-balanced.",
        options={"hidden": (100, 64)},
        panels=("full",),
        rank=190,
    ),
    AttackTraits(
        "mlp-4",
        builder="Perceptron",
        summary="A perceptron with three hidden layers, class-balanced.",
        options={"hidden": (100, 64, 32)},
        panels=("full",),
        rank=200,
    ),
)

MAX_BATCHES_PER_EPOCH = 500
"""Batches of one epoch; above this the batches grow with the users."""

WARM_UP_SHARE = 0.3
"""Share of the steps in which the learning rate rises."""

Batch = tuple[torch.Tensor, torch.Tensor, torch.Tensor]  # x (T, size, d), y and weight (T, 1, size)


@dataclass(frozen=True)
class Logistic:
    """Multinomial logistic regression, class-balanced.

    The ridge penalty is that of scikit-learn's default C. Departs: solved by accelerated steps with the fixed curvature
    bound of Bohning and Lindsay (1988), which needs one (d, d) factorization per task for any number of classes, and no
    line search.
    """

    C: PositiveFloat = 1.0
    steps: Count = 100
    device: str | None = None

    def guess(
        self, x: FloatArray, y: IntArray, n_classes: int, tasks: Sequence[Task], *, rng: np.random.Generator
    ) -> list[FloatArray]:
        """Return probabilities for the test users of each task."""
        device = resolve_device(self.device)

        def solve(stack: TaskStack, _: np.random.Generator) -> torch.Tensor:
            return self._solve_stack(stack, n_classes)

        return guess_in_stacks(solve, x, y, n_classes, tasks, rng=rng, device=device)

    def _solve_stack(self, stack: TaskStack, n_classes: int) -> torch.Tensor:
        a = functional.pad(stack.look_up_rows(stack.rows), (0, 1), value=1.0)  # (T, n, d + 1)
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
            next_B, next_momentum = ahead - step, (1 + (1 + 4 * momentum**2) ** 0.5) / 2
            ahead = next_B + (momentum - 1) / next_momentum * (next_B - B)
            B, momentum = next_B, next_momentum
            if number % 10 == 9 and float(step.abs().max()) < 1e-4:
                break
        return torch.softmax(stack.look_up_rows(stack.test_rows) @ B[..., :-1].mT + B[..., -1:].mT, -1)


@dataclass(frozen=True)
class Perceptron:
    """A multilayer perceptron, class-balanced.

    The epoch with the lowest loss on a held-out tenth is kept. One cycle of the learning rate (up to a high one, down
    to zero) reaches in `epochs` epochs what small constant steps reach in fifty. Few users get more epochs, up to
    `steps` batches; very many get larger batches.
    """

    hidden: tuple[Width, ...] = (100,)
    epochs: Count = 3
    steps: Count = 100
    learning_rate: PositiveFloat = 3.5e-2
    reg: NonNegativeFloat = 1e-3
    batch_size: Count = 64
    device: str | None = None

    def guess(
        self, x: FloatArray, y: IntArray, n_classes: int, tasks: Sequence[Task], *, rng: np.random.Generator
    ) -> list[FloatArray]:
        """Return probabilities for the test users of each task."""
        device = resolve_device(self.device)
        sizes = (x.shape[1], *self.hidden, n_classes)

        def solve(stack: TaskStack, stack_rng: np.random.Generator) -> torch.Tensor:
            layers = self._train_stack(stack, sizes, make_torch_generator(stack_rng, stack.table.device))
            return torch.softmax(forward(layers, stack.look_up_rows(stack.test_rows)), 1).mT

        # AdamW holds each weight four times, and each output is held with its gradient.
        numbers = sum(4 * (fan_in + 1) * width + 2 * self.batch_size * width for fan_in, width in pairwise(sizes))
        return guess_in_stacks(solve, x, y, n_classes, tasks, rng=rng, device=device, numbers_per_task=numbers)

    def _train_stack(self, stack: TaskStack, sizes: tuple[int, ...], generator: torch.Generator) -> Layers:
        T, n = stack.rows.shape
        n_held_out = max(1, n // 10)
        n_fit = n - n_held_out
        n_batches = max(1, round(n_fit / max(self.batch_size, n_fit // MAX_BATCHES_PER_EPOCH)))
        size = 8 * -(-n_fit // (8 * n_batches))  # whole vectors of the processor: other sizes cost half as much again
        epochs = max(self.epochs, -(-self.steps // n_batches))
        network = Network(sizes, T, size, reg=self.reg, generator=generator)
        x, y, weight = (
            stack.look_up_rows(stack.rows[:, :n_held_out]),
            stack.y[:, :n_held_out],
            stack.weight[:, :n_held_out],
        )
        best = torch.full((T,), torch.inf, device=x.device)
        for epoch in range(epochs):
            batches = _draw_batches(stack, n_held_out, n_batches, size, generator)
            for step, batch in enumerate(batches, epoch * n_batches + 1):
                network.step(*batch, rate=self.learning_rate * _cycle_rate(step / (epochs * n_batches + 1)))
            loss = _compute_losses(forward(network.layers, x), y, weight)
            network.keep_best(loss < best)
            best = torch.minimum(loss, best)
        return network.best_layers


def _draw_batches(
    stack: TaskStack, n_held_out: int, n_batches: int, size: int, generator: torch.Generator
) -> Iterator[Batch]:
    """Draw the batches of one epoch from the users after the held-out ones.

    All tasks have the same random order. A few of the first users come twice to fill the last batch. The weights of a
    batch add up to one.
    """
    T, n = stack.rows.shape
    order = torch.randperm(n - n_held_out, generator=generator, device=stack.rows.device)
    order = n_held_out + order[torch.arange(n_batches * size, device=order.device) % len(order)]
    rows, y, weight = (t[:, order].view(T, n_batches, size) for t in (stack.rows, stack.y, stack.weight))
    weight /= weight.sum(-1, keepdim=True).clamp(min=1e-12)
    return ((stack.look_up_rows(rows[:, k]), y[:, None, k], weight[:, None, k]) for k in range(n_batches))


def _cycle_rate(progress: float) -> float:
    """Compute the share of the highest learning rate at this share of all steps."""
    if progress < WARM_UP_SHARE:
        return progress / WARM_UP_SHARE
    return 0.5 + 0.5 * math.cos(math.pi * (progress - WARM_UP_SHARE) / (1 - WARM_UP_SHARE))


def _compute_losses(logits: torch.Tensor, y: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Compute the weighted mean cross-entropy of each task; logits (T, K, n)."""
    losses = functional.cross_entropy(logits, y, reduction="none")
    return (losses * weight).sum(1) / weight.sum(1).clamp(min=1e-12)
