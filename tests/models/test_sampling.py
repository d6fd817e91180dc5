from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from recveil.core.errors import DataError, UsageError
from recveil.core.types import Dataset
from recveil.models.sampling import draw_batches, make_positives, select_hardest, weigh_pairs, wrap_histories


def world(user: list[int], item: list[int], n_users: int, n_items: int) -> Dataset:
    return Dataset(
        "tiny", np.array(user, np.int64), np.array(item, np.int64), None, np.arange(n_users), np.arange(n_items)
    )


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 6), st.integers(2, 9), st.integers(0, 10_000))
def test_negatives_are_exactly_the_unseen_items(n_users: int, n_items: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    seen_pairs = rng.random((n_users, n_items)) < rng.random()
    seen_pairs[:, 0], seen_pairs[:, -1] = True, False
    user, item = np.nonzero(seen_pairs)
    pairs = make_positives(world(user.tolist(), item.tolist(), n_users, n_items))
    drawn = pairs.draw_negatives(torch.arange(len(pairs)), 400, seeded(seed)).numpy()
    for row in range(len(pairs)):
        u = int(pairs.user[row])
        assert set(drawn[row]) == set(np.flatnonzero(~seen_pairs[u]))


def test_negatives_are_uniform_over_the_unseen_items() -> None:
    pairs = make_positives(world([0, 0, 0], [1, 2, 5], 1, 8))
    drawn = pairs.draw_negatives(torch.zeros(1, dtype=torch.long), 50_000, seeded())
    share = np.bincount(drawn.numpy().ravel(), minlength=8) / 50_000
    assert np.allclose(share[[0, 3, 4, 6, 7]], 0.2, atol=0.01)
    assert share[[1, 2, 5]].sum() == 0


def test_an_epoch_shows_every_pair_once_in_equal_batches() -> None:
    rng = np.random.default_rng(0)
    user, item = np.nonzero(rng.random((40, 30)) < 0.4)
    pairs = make_positives(world(user.tolist(), item.tolist(), 40, 30))
    users, liked, others = pairs.draw_epoch(64, 2, seeded())
    assert users.shape == liked.shape == others.shape[:2]
    assert others.shape[2] == 2
    keys, times = np.unique((users * 30 + liked).numpy(), return_counts=True)
    assert np.array_equal(keys, user * 30 + item)
    assert times.sum() - len(keys) < len(users)  # fewer repeats than steps
    seen_pairs = set((user * 30 + item).tolist())
    assert not seen_pairs & set((users[:, :, None] * 30 + others).numpy().ravel().tolist())


@given(st.integers(1, 5000), st.integers(1, 600))
@settings(max_examples=50, deadline=None)
def test_batches_are_no_larger_than_asked_and_hold_everything(n: int, batch_size: int) -> None:
    order = draw_batches(n, batch_size, seeded())
    assert order.shape[1] <= batch_size
    assert set(order.ravel().tolist()) == set(range(n))


def test_repeated_pairs_count_once() -> None:
    assert len(make_positives(world([0, 0, 1], [1, 1, 0], 2, 3))) == 2


def test_a_user_who_has_seen_every_item_is_left_out() -> None:
    pairs = make_positives(world([0, 0, 1], [0, 1, 0], 2, 2))
    assert pairs.user.tolist() == [1]
    with pytest.raises(DataError, match="nothing to learn from"):
        make_positives(world([0, 0], [0, 1], 1, 2))


def test_histories_become_a_data_set() -> None:
    data = wrap_histories([np.array([3, 1]), np.array([], np.int64), np.array([2])], 4)
    assert data.user.tolist() == [0, 0, 2]
    assert data.item.tolist() == [3, 1, 2]
    assert data.n_users == 3
    with pytest.raises(DataError, match="names item 4.*items 0 to 3"):
        wrap_histories([np.array([4])], 4)


def timed(times: list[int] | None) -> Dataset:
    when = None if times is None else np.array(times)
    return Dataset("tiny", np.array([0, 0, 1, 0, 1, 1]), np.array([0, 1, 0, 2, 1, 1]), when, np.arange(3), np.arange(4))


def test_the_newest_pair_counts_more_and_a_user_as_much_as_before() -> None:
    user, item, weight = weigh_pairs(timed([30, 10, 5, 20, 6, 6]), 1.5)
    assert user.tolist() == [0, 0, 0, 1, 1]
    assert item.tolist() == [0, 1, 2, 0, 1]
    assert weight[:3].sum() == pytest.approx(3)
    assert np.allclose(weight[0] / weight[1], np.exp(1.5 * 2 / 3))  # newest and oldest of three
    assert weight[4] > weight[3]


def test_without_recency_all_pairs_count_alike() -> None:
    assert weigh_pairs(timed(None), 0.0)[2].tolist() == [1.0] * 5
    with pytest.raises(UsageError, match="has no times"):
        weigh_pairs(timed(None), 1.0)


@pytest.mark.thorough
def test_pairs_are_drawn_as_often_as_they_count() -> None:
    data = timed([30, 10, 5, 20, 6, 6])
    pairs = make_positives(data, recency=1.5)
    seeds = torch.Generator().manual_seed(0)
    drawn = torch.cat([torch.stack([e.ravel() for e in pairs.draw_epoch(64, 1, seeds)[:2]]) for _ in range(4000)], 1)
    share = np.bincount((drawn[0] * 4 + drawn[1]).numpy(), minlength=8) / drawn.shape[1]
    user, item, weight = weigh_pairs(data, 1.5)
    assert np.allclose(share[user * 4 + item], weight / weight.sum(), atol=0.01)


def test_the_highest_scored_of_each_group_of_draws_is_selected() -> None:
    value = torch.tensor([0.0, 5.0, 1.0, 9.0, 3.0, 2.0])
    drawn = torch.tensor([[0, 1, 2, 3, 4, 5], [5, 4, 2, 2, 0, 0]])
    assert select_hardest(lambda items: value[items], drawn, 2).tolist() == [[1, 3], [4, 2]]
    assert select_hardest(lambda items: value[items], drawn, 3).tolist() == [[1, 3, 4], [4, 2, 0]]
    assert select_hardest(lambda items: pytest.fail("nothing to choose"), drawn, 6) is drawn
