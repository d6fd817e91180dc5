"""The shadow-free attack calls a user a member exactly where the inequality of the paper does."""

from __future__ import annotations

import numpy as np

from recveil.attacks.membership.shadowfree import ShadowFree
from recveil.core.types import Watched


def test_score_is_above_one_half_where_the_inequality_says_member() -> None:
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((40, 3))
    histories = [np.append(rng.choice(np.arange(5, 40), 6, replace=False), np.arange(5)) for _ in range(200)]
    lists = np.array([rng.choice(40, 5, replace=False) for _ in range(200)])
    score = ShadowFree().fit([], rng=rng).score(Watched(histories, lists, vectors))
    popular = vectors[:5].mean(0)  # the first five items are in every history
    history_means = np.array([vectors[h].mean(0) for h in histories])
    list_means = vectors[lists].mean(1)
    is_member = 1 / np.linalg.norm(history_means - list_means, axis=1) > 1 / np.linalg.norm(
        list_means - popular, axis=1
    )
    np.testing.assert_array_equal(score > ShadowFree.threshold, is_member)
    assert 0 < is_member.mean() < 1


def test_the_ends_of_the_scale() -> None:
    vectors = np.array([[0.0, 0.0], [1.0, 0.0], [5.0, 5.0], [9.0, 9.0], [np.nan, 0.0]])
    histories = [np.array([0, 1]), np.array([0, 1, 2]), np.array([2, 3, 4])]
    lists = np.array([[0, 1], [0, 1], [2, 3]])
    alone = Watched(histories[:2], lists[:2], vectors)
    score = ShadowFree().score(Watched(histories, lists, vectors))
    assert score[1] < 0.5 < score[2]
    assert score[2] == 1  # the list has the mean of the history
    assert ShadowFree().score(alone).tolist() == [0.5, 0.0]  # no distance at all; the popular list itself
