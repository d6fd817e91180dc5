"""Adversarial training: discriminators learn to guess the attribute while user vectors learn to mislead them.

Ganhoer et al., Unlearning Protected User Attributes (SIGIR 2022), and Escobedo et al. (2024), with several parallel
discriminators behind dropout, one group for each attribute, and regression for numbers. RAID's baseline "Adv-InT".

Departs: losses are per user, not per interaction, and class-balanced, so that inactive users and small classes are
defended like the others. Inputs are standardized by the table of the epoch, so that its unit does not matter. Before
each epoch the discriminators catch up with the table: with slow discriminators users of a class move together to where
they are not yet expected, and the leak grows.

Limit: it hides from attackers of the kind it was trained against, as far as those were good. Nothing follows for other
attackers, and with too much weight users are pushed past chance, which the audit shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from recveil.core.errors import UsageError
from recveil.core.option_types import Count, CountOrZero, NonNegativeFloat, Rate, Share, Width
from recveil.core.protocols import Penalty
from recveil.core.traits import DefenseTraits, Range
from recveil.core.types import Attribute
from recveil.defenses.training.discriminators import Groups, Standardizer, encode_secrets
from recveil.defenses.training.option_checks import (
    check_rows,
    check_targets,
    check_training_options,
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

BATCH_USERS = 512
"""Users in a step of the discriminators before an epoch."""


@dataclass(frozen=True)
class Adversarial:
    """Training against networks that learn to guess the attribute, with their gradient reversed.

    Undisclosed users take no penalty.

    Args:
        weight: weight of the reversed loss, in units of the recommendation loss.
        discriminators: networks for each attribute.
        hidden: units of the hidden layer of a network.
        dropout: lowest and highest rate of dropout on the input; the networks take rates in between.
        learning_rate: learning rate of the networks.
        steps: steps of the networks before each epoch; one more is made in each step of the training.
        strength: factor of `weight`, from 0 to 1.
        device: where the networks are computed; where the vectors are by default.
    """

    weight: NonNegativeFloat = 0.05
    discriminators: Count = 10
    hidden: Width = 16
    dropout: tuple[Rate, Rate] = (0.3, 0.7)
    learning_rate: NonNegativeFloat = 0.01
    steps: CountOrZero = 50
    strength: Share = 1.0
    device: str | None = None

    def __post_init__(self) -> None:
        check_training_options(self)
        low, high = self.dropout
        if low > high:
            raise UsageError(f"dropout must be a lower and a higher rate, from 0 to below 1; got {self.dropout}.")

    def __call__(self, targets: Sequence[Attribute], *, epochs: int, rng: np.random.Generator) -> Penalty:
        """Make the penalty for these attributes; `epochs` is not used."""
        n_users = check_targets(targets, numbers=True)
        if self.strength == 0 or not encode_secrets(targets):
            return NoPenalty()
        return _Reversal(self, targets, n_users, rng)


class _Reversal(PlainPenalty):
    """Penalty of vectors that discriminators can read."""

    def __init__(
        self, options: Adversarial, targets: Sequence[Attribute], n_users: int, rng: np.random.Generator
    ) -> None:
        self.options, self.n_users = options, n_users
        self.groups = Groups(targets, options.device, rng)
        self.standard: Standardizer | None = None

    def start_epoch(self, user_vectors: torch.Tensor) -> None:
        """Standardize by the current table, and let the discriminators catch up with it."""
        check_rows(user_vectors, self.n_users)
        options = self.options
        rates = np.linspace(*options.dropout, options.discriminators).tolist()
        inputs = user_vectors.shape[1]
        device = self.groups.build_networks(user_vectors, inputs, options.hidden, rates, options.learning_rate)
        table = user_vectors.detach().to(device, torch.float32)
        self.standard = Standardizer(table)
        for _ in range(options.steps):
            users = torch.randint(len(table), (BATCH_USERS,), generator=self.groups.generator, device=device)
            self.groups.learn_step(users, self.standard(table[users]))

    def __call__(
        self, users: torch.Tensor, user_vectors: torch.Tensor, item_vectors: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Make one step of the discriminators, then return the reversed loss of these users."""
        if self.standard is None:
            raise make_early_call_error()
        x = self.standard(user_vectors.to(self.standard.mean))
        users = users.to(x.device)
        self.groups.learn_step(users, x)
        loss = self.groups.compute_loss(users, x)
        return (-self.options.strength * self.options.weight * loss).to(user_vectors)
