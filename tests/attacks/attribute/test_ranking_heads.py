"""Ranking heads are the items above one score, however many users are scored at once and in whatever order."""

from __future__ import annotations

import numpy as np
import pytest

from recveil.attacks.attribute.ranking_heads import HEAD_ITEMS, MAX_CATALOG_SHARE, mark_ranking_heads


def draw_vectors(n: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, 4))


def test_heads_are_the_items_above_one_score() -> None:
    users, items = draw_vectors(50, 0), draw_vectors(1_000, 1)
    scores = users @ items.T
    heads = mark_ranking_heads(users, lambda rows: scores[rows]).toarray() > 0
    assert heads.sum() == HEAD_ITEMS * len(users)
    assert scores[heads].min() > scores[~heads].max()
    assert len(np.unique(heads.sum(1))) > 20  # of some users more than of others


@pytest.mark.parametrize("block", [1, 3_000, 10**6])
def test_the_order_of_the_users_does_not_matter(block: int) -> None:
    users, items = draw_vectors(50, 0), draw_vectors(300, 1)
    order = np.random.default_rng(2).permutation(50)
    found = [
        mark_ranking_heads(x, lambda rows, x=x: x[rows] @ items.T, block=block).toarray() for x in (users, users[order])
    ]
    np.testing.assert_array_equal(found[0][order], found[1])


def test_a_small_catalog_is_not_listed_whole_and_what_is_no_number_is_no_item() -> None:
    users, items = draw_vectors(40, 0), draw_vectors(8, 1)
    scores = users @ items.T
    scores[:, 0] = np.nan
    heads = mark_ranking_heads(users, lambda rows: scores[rows]).toarray()
    assert heads.sum() == MAX_CATALOG_SHARE * heads.size
    assert not heads[:, 0].any()
