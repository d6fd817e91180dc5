"""Ranks as text: what a list shows survives, what lies beyond counts as a miss."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from recveil.metrics.ranking import Ranks, hit_rate, ndcg
from recveil.studies.cells import MAX_K
from recveil.studies.rank_codec import pack_held_out, pack_ranks, unpack_ranks


@given(st.lists(st.integers(0, 5_000), min_size=1, max_size=40), st.sampled_from([1, 5, 10, MAX_K]))
def test_every_measure_up_to_the_last_k_is_kept(better: list[int], k: int) -> None:
    users = np.arange(len(better))
    ranks = Ranks(users, users, np.array(better), np.zeros_like(users))
    again = unpack_ranks(pack_ranks(ranks))
    for measure in (ndcg, hit_rate):
        np.testing.assert_allclose(measure(again, k), measure(ranks, k))


def test_ties_count_against_the_model() -> None:
    one = np.array([0])
    tied = unpack_ranks(pack_ranks(Ranks(one, one, np.array([3]), np.array([4]))))
    assert tied.better.tolist() == [7]
    assert tied.ties.tolist() == [0]


def test_several_test_items_of_a_user_come_back_with_their_user() -> None:
    ranks = Ranks(np.arange(3), np.array([0, 0, 1, 2, 2]), np.array([4, 0, 7, 1, 300]), np.zeros(5, dtype=np.int64))
    again = unpack_ranks(pack_ranks(ranks), pack_held_out(ranks))
    np.testing.assert_array_equal(again.owner, ranks.owner)
    np.testing.assert_array_equal(again.better, [4, 0, 7, 1, 255])
    one_each = Ranks(np.arange(2), np.arange(2), np.array([1, 2]), np.zeros(2, dtype=np.int64))
    assert pack_held_out(one_each) == ""
