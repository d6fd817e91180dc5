"""Adversarial training: discriminators learn to guess the attribute while the users learn not to be guessed.

Ganhoer et al., Unlearning Protected User Attributes (SIGIR 2022), and Escobedo et al. (2024), with several parallel
discriminators behind dropout, one group for each attribute, and regression for numbers. RAID's baseline "Adv-InT".

Departs: per user, not per interaction, and class-balanced, so that quiet users and small classes are defended like the
others. Inputs are standardized by the table of the pass, so that its unit does not matter. Before each pass the
discriminators catch up: slow ones are led, users of a class being moved together to where they are not yet expected,
and the leak grows.

Limit: it hides from attackers of the kind it was trained against, as far as those were good ones. Nothing follows for
others, and with too much weight users are pushed past chance: look at the audit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from recveil.core.errors import UsageError
from recveil.core.protocols import Penalty
from recveil.core.traits import DefenseTraits, Range
from recveil.core.types import Attribute
from recveil.defenses.training.discriminators import Groups, Standardizer, encode_secrets
from recveil.defenses.training.option_checks import (
    check_minimum,
    check_rows,
    check_strength,
    check_targets,
    make_early_call_error,
)
from recveil.defenses.training.penalties import NoPenalty, PlainPenalty

__all__ = ["Adversarial"]

METHODS = (
    DefenseTraits(
        "adversarial",
        builder="Adversarial",
        place="training",
        numeric_targets=True,
        undisclosed_users="take no penalty",
        search_space={"weight": Range(0.005, 0.5, log=True)},
        paper="Ganhoer et al., Unlearning Protected User Attributes in Recommendations with Adversarial Training "
        "(SIGIR 2022)",
    ),
)

BATCH = 512
"""Users that discriminators learn from at a time when they catch up."""


@dataclass(frozen=True)
class Adversarial:
    """Train against networks that learn to guess the attribute, with their gradient reversed.

    `discriminators` networks of one `hidden` layer for each attribute; the first sees its input through the lower, the
    last through the higher rate of `dropout`. `steps` are made before each pass, and one in each step of the training,
    all at `learning_rate`. `weight` is the strength of the reversal in units of the recommendation loss, and
    `strength` scales it, from nothing (0) to all of it (1). Users whose attribute is unknown take no penalty.
    """

    weight: float = 0.05
    discriminators: int = 10
    hidden: int = 16
    dropout: tuple[float, float] = (0.3, 0.7)
    learning_rate: float = 0.01
    steps: int = 50
    strength: float = 1.0
    device: str | None = None

    def __post_init__(self) -> None:
        check_strength(self.strength, self.device)
        check_minimum(0, weight=self.weight, steps=self.steps, learning_rate=self.learning_rate)
        check_minimum(1, discriminators=self.discriminators, hidden=self.hidden)
        low, high = self.dropout
        if not 0 <= low <= high < 1:
            raise UsageError(f"dropout is a lower and a higher rate, from 0 to below 1; got {self.dropout}.")

    def __call__(self, targets: Sequence[Attribute], *, epochs: int, rng: np.random.Generator) -> Penalty:
        """The penalty for these attributes, the same whatever the number of passes."""
        n_users = check_targets(targets, numbers=True)
        if self.strength == 0 or not encode_secrets(targets):
            return NoPenalty()
        return _Reversal(self, targets, n_users, rng)


class _Reversal(PlainPenalty):
    """The users' side of the game: whatever a discriminator reads in a vector, the vector is pulled to hide."""

    def __init__(
        self, options: Adversarial, targets: Sequence[Attribute], n_users: int, rng: np.random.Generator
    ) -> None:
        self.options, self.n_users = options, n_users
        self.groups = Groups(targets, options.device, rng)
        self.standard: Standardizer | None = None

    def start_epoch(self, user_vectors: torch.Tensor) -> None:
        """Measure the table anew, and let the discriminators catch up with it."""
        check_rows(user_vectors, self.n_users)
        o = self.options
        rates = np.linspace(*o.dropout, o.discriminators).tolist()
        where = self.groups.build_networks(user_vectors, user_vectors.shape[1], o.hidden, rates, o.learning_rate)
        table = user_vectors.detach().to(where, torch.float32)
        self.standard = Standardizer(table)
        for _ in range(o.steps):
            users = torch.randint(len(table), (BATCH,), generator=self.groups.generator, device=where)
            self.groups.learn_step(users, self.standard(table[users]))

    def __call__(
        self, users: torch.Tensor, user_vectors: torch.Tensor, item_vectors: torch.Tensor | None = None
    ) -> torch.Tensor:
        """One step of the discriminators, then the loss of these users against them as they are now."""
        if self.standard is None:
            raise make_early_call_error()
        x = self.standard(user_vectors.to(self.standard.mean))
        users = users.to(x.device)
        self.groups.learn_step(users, x)
        loss = self.groups.compute_loss(users, x)
        return (-self.options.strength * self.options.weight * loss).to(user_vectors)
