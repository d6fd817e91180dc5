"""Worlds in which a platform knows its members, or does not."""

from __future__ import annotations

import numpy as np
import pytest

from recveil.core.types import Shadow, Watched

ITEMS, ITEMS_PER_KIND = 60, 20


@pytest.fixture
def make_seen_world():
    """Make users who like one of three kinds of items.

    A list is of the user's kind if the platform knows the user, else of any kind. It knows this share of the members.
    """

    def make(n: int, known_share: float, seed: int) -> Shadow:
        rng = np.random.default_rng(seed)
        member = rng.permutation(np.arange(n) % 2 == 0)
        vectors = np.random.default_rng(99).standard_normal((ITEMS, 5)) * 0.5
        vectors[np.arange(ITEMS), np.arange(ITEMS) // ITEMS_PER_KIND] += 3
        kind = rng.integers(0, 3, n)
        listed_kind = np.where(member & (rng.random(n) < known_share), kind, rng.integers(0, 3, n))
        order = np.argsort(rng.random((n, ITEMS_PER_KIND)), axis=1)
        histories = order[:, :10] + ITEMS_PER_KIND * kind[:, None]
        lists = order[:, 10:16] + ITEMS_PER_KIND * listed_kind[:, None]
        return Shadow(Watched(list(histories), lists, vectors), member)

    return make
