"""RAP: an attacker reads the user vector together with what the user is recommended, and the users learn to mislead it.

Beigi et al., Privacy-Aware Recommendation with Private-Attribute Protection using Adversarial Learning (WSDM 2020):
min-max, in alternating steps.

Departs: what is recommended is read as the mean of the item vectors of the list. Lists are by the product of the two
vectors, renewed once in a pass, and hold items the user has touched, which a penalty does not know. The attacker's view
of them is not differentiated: users learn by their own vectors, items by the recommendation loss alone.

Limit: **it injects the label.** One attacker at a time is misled, without a floor: users are pushed over the line it
draws, each class to its own side. Attackers of other kinds find more than before (published: boosted trees 0.93-0.99).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

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
"""Users whose scores of all items are held at once."""


@dataclass(frozen=True)
class RAP:
    """Train against an attacker that reads user vectors and lists. Injects the label for trees.

    The attacker has one layer of `hidden` units and makes `steps` steps at `learning_rate` before each step of the
    training; it sees the first `k` items. `weight` is what misleading it counts, in units of the recommendation loss,
    and `strength` scales that, from nothing (0) to all of it (1). Users whose attribute is unknown take no penalty.
    Works where user and item vectors have one length; where a network scores, the lists are only nearly those served.
    """

    injects: ClassVar[bool] = True
    """Attackers of other kinds may find more than before: look at the audit."""

    weight: float = 0.1
    k: int = 10
    hidden: int = 16
    learning_rate: float = 0.01
    steps: int = 1
    strength: float = 1.0
    device: str | None = None

    def __post_init__(self) -> None:
        check_strength(self.strength, self.device)
        check_minimum(0, weight=self.weight, learning_rate=self.learning_rate)
        check_minimum(1, k=self.k, hidden=self.hidden, steps=self.steps)

    def __call__(self, targets: Sequence[Attribute], *, epochs: int, rng: np.random.Generator) -> Penalty:
        """The penalty for these attributes, the same whatever the number of passes."""
        n_users = check_targets(targets, numbers=True)
        if self.strength == 0 or not encode_secrets(targets):
            return NoPenalty()
        return _MinMax(self, targets, n_users, rng)


class _MinMax(PlainPenalty):
    """The users' side of the game, and the lists that the attacker reads."""

    needs_items = True

    def __init__(self, options: RAP, targets: Sequence[Attribute], n_users: int, rng: np.random.Generator) -> None:
        self.options, self.n_users = options, n_users
        self.groups = Groups(targets, options.device, rng)
        self.standard: Standardizer | None = None

    def start_epoch(self, user_vectors: torch.Tensor) -> None:
        """Measure the table anew; the lists of the last pass are out of date."""
        check_rows(user_vectors, self.n_users)
        o, d = self.options, user_vectors.shape[1]
        where = self.groups.build_networks(user_vectors, 2 * d, o.hidden, [0.0], o.learning_rate)
        self.standard = Standardizer(user_vectors.detach().to(where, torch.float32))
        self.served: Standardizer | None = None
        self.lists = torch.zeros(self.n_users, 0, dtype=torch.int64, device=where)
        self.stale = torch.ones(self.n_users, dtype=torch.bool, device=where)

    def __call__(
        self, users: torch.Tensor, user_vectors: torch.Tensor, item_vectors: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Some steps of the attacker, then the loss of these users against it as it is now."""
        if self.standard is None:
            raise make_early_call_error()
        vectors = user_vectors.to(self.standard.mean)
        users = users.to(vectors.device)
        with torch.no_grad():
            served = self._describe_lists(users, vectors, _check_items(item_vectors, vectors).to(vectors))
        x = torch.cat([self.standard(vectors), served], dim=1)
        for _ in range(self.options.steps):
            self.groups.learn_step(users, x)
        loss = self.groups.compute_loss(users, x)
        return (-self.options.strength * self.options.weight * loss).to(user_vectors)

    def _describe_lists(self, users: torch.Tensor, vectors: torch.Tensor, items: torch.Tensor) -> torch.Tensor:
        """What each of these users is recommended: the standardized mean of the items of the list."""
        k = min(self.options.k, len(items))
        if self.lists.shape[1] != k:
            self.lists = self.lists.new_zeros(self.n_users, k)
        new = self.stale[users].nonzero()[:, 0]
        for at in range(0, len(new), BLOCK_USERS):
            some = new[at : at + BLOCK_USERS]
            self.lists[users[some]] = (vectors[some] @ items.T).topk(k).indices
        self.stale[users] = False
        mean = items[self.lists[users]].mean(1)
        self.served = self.served or Standardizer(mean)
        return self.served(mean)


def _check_items(items: torch.Tensor | None, vectors: torch.Tensor) -> torch.Tensor:
    if items is None:
        raise UsageError("RAP reads what users are recommended and was given no item vectors. Hand them over.")
    if items.shape[1] != vectors.shape[1]:
        raise UsageError(
            f"User vectors have {vectors.shape[1]} dimensions and item vectors {items.shape[1]}: RAP needs a model "
            "whose scores are their products."
        )
    return items.detach()
