"""Small parallel networks that learn to guess one attribute while the vectors they read are being trained.

Adversarial defenses train against them. All networks of a group are one batched tensor program: (D, n, d) inputs, each
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
"""Columns with less than this share of the largest spread count as constant."""

EncodedSecret = tuple[NDArray[Any], FloatArray, int]
"""Truth, weight and width of a secret."""


@dataclass(frozen=True, eq=False)
class Secret:
    """An attribute to be guessed.

    Attributes:
        truth: (n,) class, int64, or standardized number, float32.
        weight: (n,) weight of each user: 0 for undisclosed users, otherwise such that every class weighs the same and
            the mean is 1.
        width: number of classes, or 1 for a number.
    """

    truth: torch.Tensor
    weight: torch.Tensor
    width: int

    def compute_losses(self, guess: torch.Tensor, users: torch.Tensor) -> torch.Tensor:
        """Compute the loss of guesses (D, n, width) about these users, for each network and user."""
        truth = self.truth[users].expand(len(guess), -1)
        if self.width == 1:
            return (guess[..., 0] - truth).square()
        losses = functional.cross_entropy(guess.flatten(0, 1), truth.flatten(), reduction="none")
        return losses.view_as(truth)

    def average_losses(self, losses: torch.Tensor, users: torch.Tensor) -> torch.Tensor:
        """Average the losses of each network over these users, by their weights."""
        weight = self.weight[users]
        return (losses * weight).sum(1) / weight.sum().clamp(min=MIN_SPREAD_SHARE)


def encode_secrets(targets: Sequence[Attribute], device: torch.device | None = None) -> list[Secret]:
    """Encode the attributes that vary: of two classes or more, or a number with more than one value."""
    encoded = [_encode_values(t) if t.is_numeric else _encode_classes(t.codes) for t in targets]
    return [
        Secret(
            torch.as_tensor(truth, device=device), torch.as_tensor(weight, device=device, dtype=torch.float32), width
        )
        for truth, weight, width in filter(None, encoded)
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
    """Standardization to mean 0 and spread 1 by the table that it is made from."""

    def __init__(self, table: torch.Tensor) -> None:
        spread = table.std(0, correction=0)
        self.mean = table.mean(0)
        # Constant columns hold nothing to read, and must not be pulled.
        self.scale = torch.where(spread > MIN_SPREAD_SHARE * spread.max(), 1 / spread.clamp(min=1e-30), 0.0)

    def __call__(self, vectors: torch.Tensor) -> torch.Tensor:
        """Standardize these vectors."""
        return (vectors - self.mean) * self.scale


class Discriminators:
    """Networks [d, hidden, width] with their own rates of dropout on the input, and their optimizer."""

    def __init__(
        self, secret: Secret, d: int, hidden: int, rates: Sequence[float], rate: float, generator: torch.Generator
    ) -> None:
        self.secret, self.generator = secret, generator
        device, D = generator.device, len(rates)
        self.keep = 1 - torch.tensor(rates, device=device)[:, None, None]
        sizes = ((d, hidden), (hidden, secret.width))
        W, V = (torch.randn(D, a, b, generator=generator, device=device) / a**0.5 for a, b in sizes)
        b, c = (torch.zeros(D, 1, size, device=device) for _, size in sizes)
        self.layers = [p.requires_grad_() for p in (W, b, V, c)]
        self.adam = torch.optim.Adam(self.layers, lr=rate, fused=True)

    def guess_secret(self, x: torch.Tensor, *, frozen: bool) -> torch.Tensor:
        """Return logits, or a standardized number, of every network: (D, n, width).

        With `frozen` only `x` is differentiable, not the networks.
        """
        W, b, V, c = [p.detach() for p in self.layers] if frozen else self.layers
        draws = torch.rand(len(self.keep), *x.shape, generator=self.generator, device=x.device)
        dropped = x * ((draws < self.keep) / self.keep)
        return torch.baddbmm(c, torch.relu(torch.baddbmm(b, dropped, W)), V)

    def learn_step(self, users: torch.Tensor, x: torch.Tensor) -> None:
        """Make one step towards better guesses of these users."""
        with torch.enable_grad():
            losses = self.secret.compute_losses(self.guess_secret(x.detach(), frozen=False), users)
            loss = self.secret.average_losses(losses, users).sum()
        self.adam.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.adam.step()

    def compute_loss(self, users: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        """Compute the mean loss of the networks for these users, which the vectors can learn to raise."""
        losses = self.secret.compute_losses(self.guess_secret(x, frozen=True), users)
        return self.secret.average_losses(losses, users).mean()


class Groups:
    """One group of discriminators for each attribute, built on the device of the first table."""

    def __init__(self, targets: Sequence[Attribute], device: str | None, rng: np.random.Generator) -> None:
        self.targets, self.device = targets, device
        (self.rng,) = rng.spawn(1)  # so that the draws of the caller's generator do not depend on the defense
        self.groups: list[Discriminators] = []

    def build_networks(
        self, vectors: torch.Tensor, d: int, hidden: int, rates: Sequence[float], rate: float
    ) -> torch.device:
        """Build the networks at the first call, and return their device.

        Args:
            vectors: user vectors, which decide on the device unless it was given.
            d: length of the inputs.
            hidden: units of the hidden layer.
            rates: rate of dropout of each network.
            rate: learning rate.
        """
        if not self.groups:
            device = vectors.device if self.device is None else torch.device(self.device)
            self.generator = make_torch_generator(self.rng, device)
            secrets = encode_secrets(self.targets, device)
            self.groups = [Discriminators(secret, d, hidden, rates, rate, self.generator) for secret in secrets]
        return self.generator.device

    def learn_step(self, users: torch.Tensor, x: torch.Tensor) -> None:
        """Make one step of every network."""
        for group in self.groups:
            group.learn_step(users, x)

    def compute_loss(self, users: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        """Sum the losses of all attributes; one more attribute takes nothing from the others."""
        return torch.stack([group.compute_loss(users, x) for group in self.groups]).sum()
