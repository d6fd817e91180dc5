from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from recveil.core.errors import UsageError
from recveil.core.random import make_generator
from recveil.metrics.ranking import collect_seen_items, hit_rate, rank
from recveil.models.bprmf import BPRMF
from recveil.models.scoring import compute_dot_scores, make_release, score_lists, top_k
from recveil.testing.worlds import make_checkerboard


def world(seed: int = 0) -> tuple[np.ndarray, sparse.csr_array]:
    rng = np.random.default_rng(seed)
    scores = rng.standard_normal((20, 15)).astype(np.float32)
    return scores, sparse.csr_array((rng.random((20, 15)) < 0.5).astype(np.int32))


@pytest.mark.parametrize("block", [1, 40, 2**20])
def test_lists_are_the_sorted_unseen_items(block: int) -> None:
    scores, seen = world()
    users = np.array([4, 0, 19, 7])
    lists = top_k(lambda who: scores[who], users, 12, seen, block=block)
    for u, found in zip(users, lists, strict=True):
        unseen = np.flatnonzero(seen.toarray()[u] == 0)
        expected = unseen[np.argsort(-scores[u, unseen])][:12]
        assert found.tolist() == expected.tolist() + [-1] * (12 - len(expected))


def test_a_list_longer_than_the_catalog_is_filled_up() -> None:
    scores, seen = world()
    assert (top_k(lambda who: scores[who], np.arange(20), 30, seen)[:, 15:] == -1).all()


def test_equal_scores_come_by_item_and_broken_ones_not_at_all() -> None:
    seen = sparse.csr_array(np.array([[0, 1, 0, 0, 0]]))
    scores = np.array([[1.0, 9.0, 1.0, np.nan, 1.0]], np.float32)
    assert top_k(lambda who: scores, np.array([0]), 4, seen).tolist() == [[0, 2, 4, -1]]
    assert np.isnan(scores[0, 3])
    assert scores[0, 1] == 9.0  # what was handed in is not changed


def test_the_scores_handed_in_are_not_changed() -> None:
    scores, seen = world()
    before = scores.copy()
    top_k(lambda who: scores, np.arange(20), 3, seen)
    assert np.array_equal(scores, before)


def test_lists_and_ranks_tell_the_same_hit_rate() -> None:
    board = make_checkerboard()
    model = BPRMF(embedding_size=4, epochs=2).fit(board, rng=make_generator(0, "t"))
    shown = make_release(model, board, 5)
    assert shown.lists is not None
    listed = (shown.lists[board.test.user] == board.test.item[:, None]).any(1)
    ranks = rank(model.score, board.test, collect_seen_items(board.train, board.valid))
    assert np.array_equal(listed, hit_rate(ranks, 5) == 1.0)
    assert 0 < listed.mean() < 1 or listed.all()
    assert shown.user_vectors is model.user_vectors_
    assert shown.score is not None


def test_wrong_calls_are_errors() -> None:
    scores, seen = world()
    with pytest.raises(UsageError, match="k is 0"):
        top_k(lambda who: scores[who], np.arange(20), 0, seen)
    with pytest.raises(UsageError, match=r"shape \(3, 2\); for 2 users.*\(2, 2\)"):
        compute_dot_scores(np.ones((4, 2)), np.ones((5, 2)), np.arange(2), np.ones((3, 2)))


@pytest.mark.parametrize("block", [1, 40, 2**20])
def test_scores_of_lists_are_those_of_their_items(block: int) -> None:
    scores = np.random.default_rng(0).standard_normal((20, 15)).astype(np.float32)
    lists = np.argsort(scores, axis=1)[:, :4]
    lists[3, 2:] = -1
    found = score_lists(lambda users: scores[users], lists, block=block)
    np.testing.assert_array_equal(found[:3], np.sort(scores, axis=1)[:3, :4])
    assert found[3, 2:].tolist() == [0, 0]
