"""Ranking heads are the first items of the whole ranking, however many users are scored at once."""

from __future__ import annotations

import numpy as np
import pytest

from recveil.attacks.attribute.ranking_heads import list_ranking_heads


@pytest.mark.parametrize("block", [1, 100, 10_000])
def test_heads_are_the_first_items_of_the_whole_ranking(block: int) -> None:
    rng = np.random.default_rng(0)
    users, items = rng.normal(size=(50, 4)), rng.normal(size=(30, 4))
    expected = np.sort(np.argsort(-users @ items.T, axis=1)[:, :7])
    np.testing.assert_array_equal(np.sort(list_ranking_heads(users, items, 7, block)), expected)


def test_a_small_catalog_is_listed_whole() -> None:
    heads = list_ranking_heads(np.ones((2, 1)), np.ones((3, 1)), 7)
    np.testing.assert_array_equal(np.sort(heads), [[0, 1, 2]] * 2)
