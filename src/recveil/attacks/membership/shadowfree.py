"""The shadow-free attack: is the list nearer to the history than to popularity?

Chi et al., Shadow-Free Membership Inference Attacks (IJCAI 2024): 1/|I - R| against 1/|R - B|, where I is the mean
vector of the user's history, R that of the list, and B that of the popular list.

Departs: the score is |R - B| / (|R - B| + |I - R|). It is above one half exactly where the paper says member, and stays
finite where a list is the popular list. B is counted on the histories of the users under attack.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from recveil.attacks.membership.difference_vectors import (
    average_frequent_items,
    compare_distances,
    get_item_vectors,
)
from recveil.attacks.membership.rules import count_items
from recveil.core.traits import MembershipAttackTraits
from recveil.core.types import FloatArray, Shadow, Watched

__all__ = ["METHODS", "ShadowFree"]

METHODS = (
    MembershipAttackTraits(
        "shadowfree",
        builder="ShadowFree",
        paper="Chi et al., Shadow-Free Membership Inference Attacks (IJCAI 2024)",
    ),
)

NEUTRAL_SCORE = 0.5


@dataclass
class ShadowFree:
    """Comparison of each list with the history and with the popular list."""

    threshold: ClassVar[float | None] = NEUTRAL_SCORE
    """Members score above it, by the paper's rule."""

    def fit(self, shadows: Sequence[Shadow], *, reference: Watched | None = None, rng: np.random.Generator) -> Self:
        """Return the attack as it is: it learns nothing, and `shadows` may be empty."""
        return self

    def score(self, target: Watched) -> FloatArray:
        """Score each user from 0 (the popular list) to 1 (the mean of the history)."""
        vectors = get_item_vectors(target)
        popular = average_frequent_items(vectors, count_items(target, len(vectors)), target.lists.shape[1])
        return compare_distances(target, popular, neutral=NEUTRAL_SCORE)
