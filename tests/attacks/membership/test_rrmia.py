"""RRMIA orders users by the ratio of the paper."""

from __future__ import annotations

import numpy as np

from recveil.attacks.membership.rrmia import RRMIA
from recveil.core.types import Watched
from recveil.metrics.roc import estimate_auc


def make_lists(rng: np.random.Generator, member: np.ndarray) -> Watched:
    """Make lists that lie near the history for members, and are the same popular items for all others."""
    histories = [rng.choice(30, 6, replace=False) for _ in member]
    near = np.array([history[:4] for history in histories])
    lists = np.where(member[:, None], near, np.arange(4))
    return Watched(histories, lists, rng.standard_normal((30, 5)))


def test_the_score_falls_with_the_ratio_of_the_paper() -> None:
    rng = np.random.default_rng(0)
    watched = make_lists(rng, np.arange(100) % 2 == 0)
    vectors, center = watched.item_vectors, watched.item_vectors[:4].mean(0)  # the first four are listed most often
    listed = vectors[watched.lists].mean(1)
    history = np.array([vectors[items].mean(0) for items in watched.histories])
    to_center = np.linalg.norm(listed - center, axis=1)
    ratio = np.linalg.norm(listed - history, axis=1) / np.maximum(to_center, 1e-12)
    score = RRMIA().fit([], rng=rng).score(watched)
    np.testing.assert_allclose(score, 1 / (1 + ratio), atol=1e-6)


def test_members_with_lists_of_their_own_are_found_and_equal_serving_gives_chance() -> None:
    rng, member = np.random.default_rng(1), np.arange(400) % 2 == 0
    assert estimate_auc(member, RRMIA().score(make_lists(rng, member))).low > 0.9
    alike = [RRMIA().score(make_lists(rng, np.ones(400, dtype=bool))) for _ in range(20)]
    assert abs(np.mean([estimate_auc(member, scores).value for scores in alike]) - 0.5) < 0.03
