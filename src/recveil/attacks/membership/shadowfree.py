"""The attack without a shadow: is the list nearer to what the user touched, or to what everybody is shown?

Chi et al., Shadow-Free Membership Inference Attacks (IJCAI 2024): 1/|I - R| against 1/|R - B|, where I is the mean
vector of what the user touched, R that of the list, and B that of the popular list.

Departs: as a score, |R - B| / (|R - B| + |I - R|). It is above one half exactly where the paper says member, and stays
finite where a list is the popular list. B is counted on the histories in sight.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from recveil.attacks.membership.difference_vectors import compute_mean_vectors, get_item_vectors
from recveil.attacks.membership.rules import count_items
from recveil.core.types import FloatArray, Shadow, Watched

__all__ = ["ShadowFree"]


@dataclass
class ShadowFree:
    """Compares each list with the user's own history and with the popular list; learns nothing."""

    threshold: ClassVar[float] = 0.5
    """Members score above it, by the paper's own rule."""

    def fit(self, shadows: Sequence[Shadow], *, reference: Watched | None = None, rng: np.random.Generator) -> Self:
        """Nothing to learn: shadows may be missing."""
        return self

    def score(self, target: Watched) -> FloatArray:
        """From 0, the popular list itself, to 1, a list that is what the user touched."""
        touched, listed = compute_mean_vectors(target)
        near = np.linalg.norm(touched - listed, axis=1).astype(np.float64)
        far = np.linalg.norm(listed - _average_popular_items(target), axis=1).astype(np.float64)
        total = near + far
        return np.asarray(np.divide(far, total, out=np.full(len(total), 0.5), where=total > 0))


def _average_popular_items(watched: Watched) -> FloatArray:
    """The mean vector of the items that were touched most, as many as a list has."""
    vectors = get_item_vectors(watched)
    counts = np.where(np.all(np.isfinite(vectors), axis=1), count_items(watched, len(vectors))[: len(vectors)], 0)
    top = np.argsort(-counts, kind="stable")[: watched.lists.shape[1]]
    return np.asarray(vectors[top[counts[top] > 0]].mean(0))
