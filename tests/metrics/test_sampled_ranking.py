from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from recveil.core.errors import UsageError
from recveil.core.types import Dataset
from recveil.metrics.ranking import Ranks, collect_seen_items, ndcg, rank
from recveil.metrics.sampled_ranking import capped_recall, draw_candidates, full_ndcg, restrict_scores

N_USERS, N_ITEMS = 6, 40


def make_part(pairs: list[tuple[int, int]]) -> Dataset:
    user, item = (np.array(column, dtype=np.int64) for column in zip(*pairs, strict=True))
    return Dataset("d", user, item, None, np.arange(N_USERS), np.arange(N_ITEMS))


SEEN = collect_seen_items(make_part([(u, i) for u in range(N_USERS) for i in range(10)]))
HELD = make_part([(u, 10 + j) for u in range(N_USERS) for j in range(1 + u)])


def test_candidates_are_the_held_out_items_and_as_many_unseen_ones() -> None:
    candidates = draw_candidates(HELD, SEEN, 7, rng=np.random.default_rng(0)).toarray()
    for user in range(N_USERS):
        chosen = set(np.flatnonzero(candidates[user]))
        held = {10 + j for j in range(1 + user)}
        assert held <= chosen
        assert len(chosen - held) == 7
        assert not chosen & set(range(10))
    again = draw_candidates(HELD, SEEN, 7, rng=np.random.default_rng(0)).toarray()
    np.testing.assert_array_equal(candidates, again)
    assert draw_candidates(HELD, SEEN, 1000, rng=np.random.default_rng(0)).toarray()[0].sum() == 30
    with pytest.raises(UsageError, match="at least 1"):
        draw_candidates(HELD, SEEN, 0, rng=np.random.default_rng(0))


def test_items_that_are_no_candidates_are_never_ranked_before_a_candidate() -> None:
    scores = np.tile(np.arange(N_ITEMS, dtype=np.float64), (N_USERS, 1))
    candidates = draw_candidates(HELD, SEEN, 5, rng=np.random.default_rng(0))
    ranks = rank(restrict_scores(lambda users: scores[users], candidates), HELD, sparse.csr_array(SEEN.shape))
    dense = candidates.toarray()
    for pair, (owner, item) in enumerate(zip(ranks.owner, HELD.item, strict=True)):
        assert ranks.better[pair] == dense[owner, item + 1 :].sum()
    whole = rank(lambda users: scores[users], HELD, SEEN)
    assert (ranks.better <= whole.better).all()
    assert ranks.better.sum() < whole.better.sum()


def test_measures_of_several_held_out_items_by_hand() -> None:
    # One user with two held-out items at positions 1 and 4; another with three at 1, 2 and 9.
    ranks = Ranks(np.arange(2), np.array([0, 0, 1, 1, 1]), np.array([0, 3, 0, 1, 8]), np.zeros(5, dtype=np.int64))
    np.testing.assert_allclose(capped_recall(ranks, 2), [1 / 2, 2 / 2])
    np.testing.assert_allclose(capped_recall(ranks, 5), [2 / 2, 2 / 3])
    gains = 1 / np.log2(np.arange(5) + 2.0)
    np.testing.assert_allclose(
        full_ndcg(ranks, 5), [(gains[0] + gains[3]) / gains.sum(), gains[:2].sum() / gains.sum()]
    )
    assert (full_ndcg(ranks, 2) == ndcg(ranks, 2)).all()  # as many held-out items as places
