"""The biased attack: a small network on difference vectors of shadow users.

Zhang et al., Membership Inference Attacks Against Recommender Systems (CCS 2021). DL-MIA calls it biased because it
assumes that the target's recommender is the shadow's. Layers d-32-8-2, SGD at 0.01 with momentum 0.7.

Departs: cross-entropy on logits (the code of the paper takes a softmax twice), users shuffled in every epoch, inputs
standardized with the shadow's statistics, so that the unit of the item vectors does not matter. One fifth of the shadow
users is held out to choose the epoch: where the leak is small, the last epoch has memorized its users.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Self

import numpy as np
import torch
from torch.nn import functional

from recveil.attacks.membership.difference_vectors import compute_difference_vectors
from recveil.core.device import resolve_device
from recveil.core.errors import DataError, UsageError
from recveil.core.option_types import Count, PositiveFloat, Rate, check_fields
from recveil.core.progress import track_progress
from recveil.core.random import make_torch_generator
from recveil.core.traits import MembershipAttackTraits
from recveil.core.types import FloatArray, Shadow, Watched

__all__ = ["METHODS", "Biased"]

METHODS = (
    MembershipAttackTraits(
        "biased",
        builder="Biased",
        paper="Zhang et al., Membership Inference Attacks Against Recommender Systems (CCS 2021)",
    ),
)

HIDDEN_LAYERS = (32, 8)
HOLDOUT_DIVISOR = 5
"""One in so many shadow users is held out to choose the epoch."""


@dataclass
class Biased:
    """A network on difference vectors, trained on shadow users alone.

    `rank_weights` gives the first items of a list the largest weight. The score is the log-odds of membership.
    """

    epochs: Count = 100
    learning_rate: PositiveFloat = 0.01
    momentum: Rate = 0.7
    batch_size: Count = 64
    rank_weights: bool = False
    device: str | None = None

    threshold: ClassVar[float | None] = None
    layers_: list[torch.Tensor] = field(init=False, repr=False, compare=False)
    mean_: FloatArray = field(init=False, repr=False, compare=False)
    spread_: FloatArray = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_fields(self)

    def fit(self, shadows: Sequence[Shadow], *, reference: Watched | None = None, rng: np.random.Generator) -> Self:
        """Learn from the shadow users; `reference` is not used."""
        if not shadows:
            raise UsageError("This attack learns from shadow users, and none were given.")
        x = np.concatenate([compute_difference_vectors(s.watched, rank_weights=self.rank_weights) for s in shadows])
        member = np.concatenate([s.member for s in shadows])
        self.mean_, self.spread_ = x.mean(0), x.std(0)
        device = resolve_device(self.device)
        generator = make_torch_generator(rng, device)
        inputs = torch.as_tensor(self._standardize(x), device=device)
        labels = torch.as_tensor(member.astype(np.int64), device=device)
        self.layers_ = self._train_layers(inputs, labels, generator)
        return self

    def score(self, target: Watched) -> FloatArray:
        """Return the log-odds of membership of each user."""
        x = compute_difference_vectors(target, rank_weights=self.rank_weights)
        if x.shape[1] != len(self.mean_):
            raise DataError(
                f"Item vectors of the target have {x.shape[1]} numbers, those of the shadow {len(self.mean_)}. "
                "Use one table for both."
            )
        with torch.no_grad():
            inputs = torch.as_tensor(self._standardize(x), device=self.layers_[0].device)
            logits = _compute_logits(self.layers_, inputs)
        return np.asarray((logits[:, 1] - logits[:, 0]).double().cpu().numpy())

    def _train_layers(self, x: torch.Tensor, labels: torch.Tensor, generator: torch.Generator) -> list[torch.Tensor]:
        layers = _initialize_layers((x.shape[1], *HIDDEN_LAYERS, 2), generator)
        optimizer = torch.optim.SGD(layers, lr=self.learning_rate, momentum=self.momentum)
        shuffled = torch.randperm(len(x), generator=generator, device=x.device)
        holdout, rest = shuffled[: len(x) // HOLDOUT_DIVISOR], shuffled[len(x) // HOLDOUT_DIVISOR :]
        best_loss, best_layers = float("inf"), layers
        for _ in track_progress(range(self.epochs), "attacking: biased", self.epochs):
            order = rest[torch.randperm(len(rest), generator=generator, device=x.device)]
            for rows in torch.split(order, self.batch_size):
                loss = functional.cross_entropy(_compute_logits(layers, x[rows]), labels[rows])
                optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
            with torch.no_grad():
                logits = _compute_logits(layers, x[holdout])
                holdout_loss = float(functional.cross_entropy(logits, labels[holdout])) if len(holdout) else 0.0
            if holdout_loss <= best_loss:
                best_loss, best_layers = holdout_loss, [layer.detach().clone() for layer in layers]
        return best_layers

    def _standardize(self, x: FloatArray) -> FloatArray:
        flat = self.spread_ <= 1e-6 * np.abs(self.mean_)  # a constant column would blow up rounding errors
        return np.asarray(np.where(flat, 0, x - self.mean_) / np.where(flat, 1, self.spread_), dtype=np.float32)


def _initialize_layers(sizes: tuple[int, ...], generator: torch.Generator) -> list[torch.Tensor]:
    """Draw weights and offsets in turn, as torch's linear layers do."""
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
