"""RAP: an attacker reads the user vector together with the user's list, and the vectors learn to mislead it.

Beigi et al., Privacy-Aware Recommendation with Private-Attribute Protection using Adversarial Learning (WSDM 2020):
min-max, in alternating steps.

Departs: a list is read as the mean of the vectors of its items. Lists are by the product of user and item vectors, are
refreshed once in an epoch, and hold seen items, which a penalty does not know. The attacker's view of the lists is not
differentiated: users learn by their own vectors, items by the recommendation loss alone.

Limit: **it injects the label.** One attacker at a time is misled, without a floor: users are pushed over its decision
boundary, each class to the other side. Attackers of other kinds find more than before (published: boosted trees
0.93-0.99).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from recveil.core.errors import UsageError
from recveil.core.option_types import Count, NonNegativeFloat, Share, Width
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

__all__ = ["RAP"]

METHODS = (
    DefenseTraits(
        "rap",
        builder="RAP",
        place="training",
        numeric_targets=True,
        undisclosed_users="take no penalty",
        search_space={"weight": Range(0.005, 1.0, log=True)},
        paper="Beigi et al., Privacy-Aware Recommendation with Private-Attribute Protection using Adversarial Learning "
        "(WSDM 2020)",
    ),
)

BLOCK_USERS = 1024
"""Users whose scores of all items are computed at once."""


@dataclass(frozen=True)
class RAP:
    """Training against an attacker that reads user vectors and lists. Injects the label for trees.

    User and item vectors must have the same length. If the scores are not their products, the lists only approximate
    those served. Undisclosed users take no penalty.

    Args:
        weight: weight of misleading the attacker, in units of the recommendation loss.
        k: items of a list.
        hidden: units of the attacker's hidden layer.
        learning_rate: learning rate of the attacker.
        steps: steps of the attacker before each step of the training.
        strength: factor of `weight`, from 0 to 1.
        device: where the attacker is computed; where the vectors are by default.
    """

    injects: ClassVar[bool] = True
    """Attackers of other kinds may find more than before; the audit shows it."""

    weight: NonNegativeFloat = 0.1
    k: Count = 10
    hidden: Width = 16
    learning_rate: NonNegativeFloat = 0.01
    steps: Count = 1
    strength: Share = 1.0
    device: str | None = None

    def __post_init__(self) -> None:
        check_training_options(self)

    def __call__(self, targets: Sequence[Attribute], *, epochs: int, rng: np.random.Generator) -> Penalty:
        """Make the penalty for these attributes; `epochs` is not used."""
        n_users = check_targets(targets, numbers=True)
        if self.strength == 0 or not encode_secrets(targets):
            return NoPenalty()
        return _MinMax(self, targets, n_users, rng)


class _MinMax(PlainPenalty):
    """Penalty of vectors that the attacker can read, and the lists that it reads beside them."""

    needs_items = True

    def __init__(self, options: RAP, targets: Sequence[Attribute], n_users: int, rng: np.random.Generator) -> None:
        self.options, self.n_users = options, n_users
        self.groups = Groups(targets, options.device, rng)
        self.standard: Standardizer | None = None

    def start_epoch(self, user_vectors: torch.Tensor) -> None:
        """Standardize by the current table, and mark all lists as out of date."""
        check_rows(user_vectors, self.n_users)
        options, inputs = self.options, 2 * user_vectors.shape[1]
        device = self.groups.build_networks(user_vectors, inputs, options.hidden, [0.0], options.learning_rate)
        self.standard = Standardizer(user_vectors.detach().to(device, torch.float32))
        self.list_standard: Standardizer | None = None
        self.lists = torch.zeros(self.n_users, 0, dtype=torch.int64, device=device)
        self.stale = torch.ones(self.n_users, dtype=torch.bool, device=device)

    def __call__(
        self, users: torch.Tensor, user_vectors: torch.Tensor, item_vectors: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Make the steps of the attacker, then return the reversed loss of these users."""
        if self.standard is None:
            raise make_early_call_error()
        vectors = user_vectors.to(self.standard.mean)
        users = users.to(vectors.device)
        with torch.no_grad():
            lists = self._describe_lists(users, vectors, _check_items(item_vectors, vectors).to(vectors))
        x = torch.cat([self.standard(vectors), lists], dim=1)
        for _ in range(self.options.steps):
            self.groups.learn_step(users, x)
        loss = self.groups.compute_loss(users, x)
        return (-self.options.strength * self.options.weight * loss).to(user_vectors)

    def _describe_lists(self, users: torch.Tensor, vectors: torch.Tensor, items: torch.Tensor) -> torch.Tensor:
        """Describe the list of each user by the standardized mean of its item vectors."""
        k = min(self.options.k, len(items))
        if self.lists.shape[1] != k:
            self.lists = self.lists.new_zeros(self.n_users, k)
        stale = self.stale[users].nonzero()[:, 0]
        for start in range(0, len(stale), BLOCK_USERS):
            block = stale[start : start + BLOCK_USERS]
            self.lists[users[block]] = (vectors[block] @ items.T).topk(k).indices
        self.stale[users] = False
        mean = items[self.lists[users]].mean(1)
        self.list_standard = self.list_standard or Standardizer(mean)
        return self.list_standard(mean)


def _check_items(items: torch.Tensor | None, vectors: torch.Tensor) -> torch.Tensor:
    if items is None:
        raise UsageError("RAP reads the lists of users, and got no item vectors. Give item_vectors.")
    if items.shape[1] != vectors.shape[1]:
        raise UsageError(
            f"User vectors have {vectors.shape[1]} dimensions and item vectors {items.shape[1]}. RAP needs a model "
            "whose scores are their products."
        )
    return items.detach()
