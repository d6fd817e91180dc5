"""The biased attack: a small network on difference vectors, taught on the shadow users and used as it is.

Zhang et al., Membership Inference Attacks Against Recommender Systems (CCS 2021); DL-MIA calls it biased, for it takes
the target's recommender for the shadow's. Layers d-32-8-2, SGD at 0.01 with momentum 0.7.

Departs: cross-entropy on logits (the code of the paper takes a softmax twice), users shuffled in every pass, inputs
standardized with the shadow's statistics, so that the unit of the item vectors does not matter. Of all passes the best
for a fifth of the shadow users, set aside, is kept: where the leak is small, the last pass has learned users by heart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np
import torch
from torch.nn import functional

from recveil.attacks.membership.difference_vectors import compute_difference_vectors
from recveil.core.device import resolve
from recveil.core.errors import DataError, UsageError
from recveil.core.progress import track
from recveil.core.random import torch_generator
from recveil.core.types import FloatArray, Shadow, Watched

__all__ = ["Biased"]

HIDDEN_LAYERS = (32, 8)
HOLDOUT_DIVISOR = 5
"""One in so many shadow users is set aside to choose the pass by."""


@dataclass
class Biased:
    """A network that tells members from others by their difference vectors, learned on shadow users alone.

    `rank_weights` makes the first of a list count most. The score is the log-odds of being a member.
    """

    epochs: int = 100
    learning_rate: float = 0.01
    momentum: float = 0.7
    batch_size: int = 64
    rank_weights: bool = False
    device: str | None = None

    layers_: list[torch.Tensor] = field(init=False, repr=False, compare=False)
    mean_: FloatArray = field(init=False, repr=False, compare=False)
    spread_: FloatArray = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.epochs < 1 or self.batch_size < 1:
            raise UsageError(f"epochs is {self.epochs} and batch_size is {self.batch_size}. Both must be at least 1.")
        if not (0 < self.learning_rate < np.inf and 0 <= self.momentum < 1):
            raise UsageError(
                f"learning_rate is {self.learning_rate:g} and momentum is {self.momentum:g}. The first must be "
                "positive, the second at least 0 and below 1."
            )

    def fit(self, shadows: Sequence[Shadow], *, reference: Watched | None = None, rng: np.random.Generator) -> Self:
        """Learn from the shadow users; `reference` is not used."""
        if not shadows:
            raise UsageError("This attack learns from shadow users, and none were given.")
        x = np.concatenate([compute_difference_vectors(s.watched, rank_weights=self.rank_weights) for s in shadows])
        member = np.concatenate([s.member for s in shadows])
        self.mean_, self.spread_ = x.mean(0), x.std(0)
        where = resolve(self.device)
        generator = torch_generator(rng, where)
        known = torch.as_tensor(self._standardize(x), device=where)
        truth = torch.as_tensor(member.astype(np.int64), device=where)
        self.layers_ = self._train_layers(known, truth, generator)
        return self

    def score(self, target: Watched) -> FloatArray:
        """The log-odds of each user being a member."""
        x = compute_difference_vectors(target, rank_weights=self.rank_weights)
        if x.shape[1] != len(self.mean_):
            raise DataError(
                f"Item vectors of the target have {x.shape[1]} numbers, those of the shadow {len(self.mean_)}. "
                "Use one table for both."
            )
        with torch.no_grad():
            logits = _compute_logits(self.layers_, torch.as_tensor(self._standardize(x), device=self.layers_[0].device))
        return np.asarray((logits[:, 1] - logits[:, 0]).double().cpu().numpy())

    def _train_layers(self, x: torch.Tensor, truth: torch.Tensor, generator: torch.Generator) -> list[torch.Tensor]:
        layers = _initialize_layers((x.shape[1], *HIDDEN_LAYERS, 2), generator)
        optimizer = torch.optim.SGD(layers, lr=self.learning_rate, momentum=self.momentum)
        aside = torch.randperm(len(x), generator=generator, device=x.device)
        held, rest = aside[: len(x) // HOLDOUT_DIVISOR], aside[len(x) // HOLDOUT_DIVISOR :]
        best, kept = float("inf"), layers
        for _ in track(range(self.epochs), "attacking: biased", self.epochs):
            order = rest[torch.randperm(len(rest), generator=generator, device=x.device)]
            for rows in torch.split(order, self.batch_size):
                loss = functional.cross_entropy(_compute_logits(layers, x[rows]), truth[rows])
                optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
            with torch.no_grad():
                now = (
                    float(functional.cross_entropy(_compute_logits(layers, x[held]), truth[held])) if len(held) else 0.0
                )
            if now <= best:
                best, kept = now, [layer.detach().clone() for layer in layers]
        return kept

    def _standardize(self, x: FloatArray) -> FloatArray:
        flat = self.spread_ <= 1e-6 * np.abs(self.mean_)  # nobody varies: rounding errors would be blown up
        return np.asarray(np.where(flat, 0, x - self.mean_) / np.where(flat, 1, self.spread_), dtype=np.float32)


def _initialize_layers(sizes: tuple[int, ...], generator: torch.Generator) -> list[torch.Tensor]:
    """Weights and offsets in turn, drawn as torch's linear layers draw theirs, from a generator of our own."""
    layers = []
    for inputs, outputs in zip(sizes[:-1], sizes[1:], strict=True):
        for shape in ((inputs, outputs), (outputs,)):
            draw = torch.rand(shape, generator=generator, device=generator.device) * 2 - 1
            layers.append((draw / inputs**0.5).requires_grad_())
    return layers


def _compute_logits(layers: Sequence[torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    for at in range(0, len(layers), 2):
        x = torch.addmm(layers[at + 1], x if at == 0 else torch.relu(x), layers[at])
    return x
