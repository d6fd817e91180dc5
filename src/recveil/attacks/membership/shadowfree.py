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

from recveil.attacks.membership.difference_vectors import compute_mean_vectors, get_item_vectors
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
        history_means, list_means = compute_mean_vectors(target)
        to_history = np.linalg.norm(history_means - list_means, axis=1).astype(np.float64)
        to_popular = np.linalg.norm(list_means - _average_popular_items(target), axis=1).astype(np.float64)
        total = to_history + to_popular
        return np.asarray(np.divide(to_popular, total, out=np.full(len(total), NEUTRAL_SCORE), where=total > 0))


def _average_popular_items(watched: Watched) -> FloatArray:
    """Compute the mean vector of the most frequent items, as many as a list has."""
    vectors = get_item_vectors(watched)
    counts = np.where(np.all(np.isfinite(vectors), axis=1), count_items(watched, len(vectors))[: len(vectors)], 0)
    top = np.argsort(-counts, kind="stable")[: watched.lists.shape[1]]
    return np.asarray(vectors[top[counts[top] > 0]].mean(0))
