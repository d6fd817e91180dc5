"""Difference vectors against a plain loop; items without a vector are counted."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recveil.attacks.membership.difference_vectors import (
    MissingVectors,
    compute_difference_vectors,
    count_missing_vectors,
    flatten_histories,
)
from recveil.core.errors import DataError
from recveil.core.types import Watched


def by_hand(watched: Watched, weights: np.ndarray) -> np.ndarray:
    rows = []
    for history, listed in zip(watched.histories, watched.lists, strict=True):
        touched = np.mean([watched.item_vectors[i] for i in history], axis=0)
        kept = [(w, watched.item_vectors[i]) for w, i in zip(weights, listed, strict=True) if i >= 0]
        rows.append(touched - sum(w * v for w, v in kept) / sum(w for w, _ in kept))
    return np.array(rows)


@given(st.integers(0, 2**32 - 1), st.booleans())
def test_difference_vectors_are_the_plain_means(seed: int, ranked: bool) -> None:
    rng = np.random.default_rng(seed)
    n, k, items = 5, 4, 9
    histories = [rng.integers(0, items, rng.integers(1, 7)) for _ in range(n)]
    lists = rng.integers(0, items, (n, k))
    lists[:, 2:][rng.random((n, 2)) < 0.3] = -1
    watched = Watched(histories, lists, rng.standard_normal((items, 3)))
    found = compute_difference_vectors(watched, rank_weights=ranked)
    assert found.dtype == np.float32
    weights = np.arange(k, 0, -1) if ranked else np.ones(k)
    np.testing.assert_allclose(found, by_hand(watched, weights), atol=1e-5)


def test_rank_weights_are_those_of_the_paper() -> None:
    vectors = np.eye(101)
    watched = Watched([np.array([100])], np.arange(100)[None], vectors)
    listed = -compute_difference_vectors(watched, rank_weights=True)[0, :100]
    np.testing.assert_allclose(listed, (100 - np.arange(100)) / 5050, rtol=1e-5)


def test_items_without_a_vector_are_counted_and_dropped() -> None:
    vectors = np.arange(8, dtype=np.float32).reshape(4, 2)
    vectors[3] = np.nan
    watched = Watched([np.array([0, 3, 7]), np.array([1])], np.array([[1, 3, -1], [2, 9, 0]]), vectors)
    assert count_missing_vectors(watched) == MissingVectors(in_histories=2, in_lists=2)
    alone = Watched([np.array([0]), np.array([1])], np.array([[1, -1, -1], [2, -1, 0]]), vectors)
    np.testing.assert_array_equal(compute_difference_vectors(watched), compute_difference_vectors(alone))
    assert count_missing_vectors(alone) == MissingVectors(0, 0)


def test_users_without_any_vector_are_refused() -> None:
    vectors = np.ones((3, 2))
    with pytest.raises(
        DataError, match=r"1 of 2 users have no item with a vector in their history, the first in row 1"
    ):
        compute_difference_vectors(Watched([np.array([0]), np.array([5])], np.array([[1], [1]]), vectors))
    with pytest.raises(DataError, match=r"in their list, the first in row 0"):
        compute_difference_vectors(Watched([np.array([0]), np.array([1])], np.array([[-1], [1]]), vectors))
    with pytest.raises(DataError, match="No table of item vectors"):
        compute_difference_vectors(Watched([np.array([0])], np.array([[1]])))


def test_flattened_histories_keep_their_order() -> None:
    owner, item = flatten_histories([np.array([4, 2]), np.array([], dtype=np.int64), np.array([7])])
    assert owner.tolist() == [0, 0, 2]
    assert item.tolist() == [4, 2, 7]
    assert [len(part) for part in flatten_histories([])] == [0, 0]
