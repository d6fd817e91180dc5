"""Small networks, side by side, that learn to guess one attribute while the vectors they read are being trained.

What adversarial defenses work against. All networks of a group are one batched tensor program: (D, n, d) inputs, each
with dropout of its own, (D, d, hidden) weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from recveil.core.random import make_torch_generator
from recveil.core.types import Attribute, FloatArray, IntArray

__all__ = ["Discriminators", "Groups", "Secret", "Standardizer", "encode_secrets"]

MIN_SPREAD_SHARE = 1e-6
"""A column whose spread is less, as a share of the widest, is one in which nobody varies."""


EncodedSecret = tuple[NDArray[Any], FloatArray, int]
"""Truth, weight and width of a secret."""


@dataclass(frozen=True, eq=False)
class Secret:
    """What is to be guessed: a class or a standardized number for every user, and how much each user counts.

    Users of unknown attribute count nothing; the others so that every class counts the same, 1 on average.
    """

    truth: torch.Tensor  # (n,) int64, or float32 for a number
    weight: torch.Tensor  # (n,)
    width: int  # how many classes, or 1 for a number

    def compute_losses(self, guess: torch.Tensor, users: torch.Tensor) -> torch.Tensor:
        """The loss of guesses (D, n, width) about these users, for each network and user."""
        truth = self.truth[users].expand(len(guess), -1)
        if self.width == 1:
            return (guess[..., 0] - truth).square()
        each = functional.cross_entropy(guess.flatten(0, 1), truth.flatten(), reduction="none")
        return each.view_as(truth)

    def average_losses(self, each: torch.Tensor, users: torch.Tensor) -> torch.Tensor:
        """The mean of each network over these users, every class counting the same."""
        weight = self.weight[users]
        return (each * weight).sum(1) / weight.sum().clamp(min=MIN_SPREAD_SHARE)


def encode_secrets(targets: Sequence[Attribute], where: torch.device | None = None) -> list[Secret]:
    """The attributes that can be told apart at all: two classes or more, or a number that varies."""
    made = [_encode_values(t) if t.is_numeric else _encode_classes(t.codes) for t in targets]
    return [
        Secret(torch.as_tensor(truth, device=where), torch.as_tensor(weight, device=where, dtype=torch.float32), width)
        for truth, weight, width in filter(None, made)
    ]


def _encode_classes(codes: IntArray) -> EncodedSecret | None:
    known = codes >= 0
    present, place = np.unique(codes[known], return_inverse=True)
    if len(present) < 2:
        return None
    truth, weight = np.zeros(len(codes), dtype=np.int64), np.zeros(len(codes))
    truth[known] = place
    weight[known] = known.sum() / (len(present) * np.bincount(place))[place]
    return truth, weight, len(present)


def _encode_values(target: Attribute) -> EncodedSecret | None:
    assert target.values is not None
    known, values = target.known, np.asarray(target.values, dtype=np.float64)
    spread = values[known].std() if known.any() else 0.0
    if not spread > 0:
        return None
    truth = np.where(known, (values - values[known].mean()) / spread, 0.0)
    return truth.astype(np.float32), known.astype(np.float64), 1


class Standardizer:
    """Vectors moved and stretched to mean 0 and spread 1, by the table as it stood when this was made."""

    def __init__(self, table: torch.Tensor) -> None:
        spread = table.std(0, correction=0)
        self.mean = table.mean(0)
        # Where nobody varies there is nothing to read, and nothing may be pulled.
        self.scale = torch.where(spread > MIN_SPREAD_SHARE * spread.max(), 1 / spread.clamp(min=1e-30), 0.0)

    def __call__(self, vectors: torch.Tensor) -> torch.Tensor:
        """These vectors in that unit."""
        return (vectors - self.mean) * self.scale


class Discriminators:
    """Networks [d, hidden, width] with dropout on their input, one rate each, and the optimizer that teaches them."""

    def __init__(
        self, secret: Secret, d: int, hidden: int, rates: Sequence[float], rate: float, generator: torch.Generator
    ) -> None:
        self.secret, self.generator = secret, generator
        where, D = generator.device, len(rates)
        self.keep = 1 - torch.tensor(rates, device=where)[:, None, None]
        sizes = ((d, hidden), (hidden, secret.width))
        W, V = (torch.randn(D, a, b, generator=generator, device=where) / a**0.5 for a, b in sizes)
        b, c = (torch.zeros(D, 1, size, device=where) for _, size in sizes)
        self.layers = [p.requires_grad_() for p in (W, b, V, c)]
        self.adam = torch.optim.Adam(self.layers, lr=rate, fused=True)

    def guess_secret(self, x: torch.Tensor, *, frozen: bool) -> torch.Tensor:
        """Logits, or a standardized number, of every network: (D, n, width); frozen, only `x` is differentiable."""
        W, b, V, c = [p.detach() for p in self.layers] if frozen else self.layers
        draw = torch.rand(len(self.keep), *x.shape, generator=self.generator, device=x.device)
        seen = x * ((draw < self.keep) / self.keep)
        return torch.baddbmm(c, torch.relu(torch.baddbmm(b, seen, W)), V)

    def learn_step(self, users: torch.Tensor, x: torch.Tensor) -> None:
        """One step towards better guesses of these users."""
        with torch.enable_grad():
            each = self.secret.compute_losses(self.guess_secret(x.detach(), frozen=False), users)
            loss = self.secret.average_losses(each, users).sum()
        self.adam.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.adam.step()

    def compute_loss(self, users: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        """How badly the networks guess these users, on average: the loss that the vectors can learn to raise."""
        return self.secret.average_losses(
            self.secret.compute_losses(self.guess_secret(x, frozen=True), users), users
        ).mean()


class Groups:
    """One group of discriminators for each attribute, made where the vectors are when they are first seen."""

    def __init__(self, targets: Sequence[Attribute], device: str | None, rng: np.random.Generator) -> None:
        self.targets, self.device = targets, device
        (self.rng,) = rng.spawn(1)  # what a defense draws is not missing in the generator it was given
        self.groups: list[Discriminators] = []

    def build_networks(
        self, vectors: torch.Tensor, d: int, hidden: int, rates: Sequence[float], rate: float
    ) -> torch.device:
        """Where the networks are; the first call makes them, for inputs of d numbers."""
        if not self.groups:
            where = vectors.device if self.device is None else torch.device(self.device)
            self.generator = make_torch_generator(self.rng, where)
            secrets = encode_secrets(self.targets, where)
            self.groups = [Discriminators(s, d, hidden, rates, rate, self.generator) for s in secrets]
        return self.generator.device

    def learn_step(self, users: torch.Tensor, x: torch.Tensor) -> None:
        """One step of every network."""
        for group in self.groups:
            group.learn_step(users, x)

    def compute_loss(self, users: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        """How badly all attributes are guessed, in sum: one more attribute takes nothing from the others."""
        return torch.stack([group.compute_loss(users, x) for group in self.groups]).sum()
