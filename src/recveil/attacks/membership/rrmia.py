"""RRMIA: is the list nearer to the history than to what the target recommends without a history?

Chi et al., Reference Recommendation based Membership Inference Attack against Hybrid-based Recommender Systems (AAAI
2026): d(t, h) / d(t, r), where t is the mean vector of the user's list, h that of the history and r that of a reference
recommendation, which the target gives for the attributes of the user alone. Members have small ratios. The paper says
that the attack survives differential privacy.

Departs: our reading of the published summary. Recommenders here take no attributes, so the reference recommendation is
the same for all: the items that the target lists most often. The score is 1 / (1 + ratio), which orders users alike and
stays finite.
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
from recveil.core.traits import MembershipAttackTraits
from recveil.core.types import FloatArray, Shadow, Watched

__all__ = ["METHODS", "RRMIA"]

METHODS = (
    MembershipAttackTraits(
        "rrmia",
        builder="RRMIA",
        paper="Chi et al., Reference Recommendation based Membership Inference Attack (AAAI 2026)",
        is_default=False,
    ),
)

NEUTRAL_SCORE = 0.5


@dataclass
class RRMIA:
    """Comparison of each list with the history and with the items that are listed most often."""

    threshold: ClassVar[float | None] = None
    """Chosen on the shadow, as in the paper."""

    def fit(self, shadows: Sequence[Shadow], *, reference: Watched | None = None, rng: np.random.Generator) -> Self:
        """Return the attack as it is: it learns nothing but its threshold."""
        return self

    def score(self, target: Watched) -> FloatArray:
        """Score each user from 0 (the reference recommendation) to 1 (the mean of the history)."""
        vectors = get_item_vectors(target)
        listed = target.lists[target.lists >= 0]
        counts = np.bincount(listed, minlength=len(vectors)).astype(np.float64)
        center = average_frequent_items(vectors, counts, target.lists.shape[1])
        return compare_distances(target, center, neutral=NEUTRAL_SCORE)
