from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from recveil.core.errors import DataError
from recveil.core.types import Dataset
from recveil.data.splits import leave_one_out
from recveil.models.sequences import (
    Windows,
    apply_in_blocks,
    compute_softmax_loss,
    index_places,
    make_histories,
)
from recveil.testing.worlds import make_checkerboard


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def world(seed: int, *, timed: bool = True, n_users: int = 5, n_items: int = 9, rows: int = 40) -> Dataset:
    """Random rows with many equal times; the last user has none."""
    rng = np.random.default_rng(seed)
    time = rng.integers(0, 4, rows) if timed else None
    user = rng.integers(0, n_users - 1, rows)
    return Dataset("w", user, rng.integers(0, n_items, rows), time, np.arange(n_users), np.arange(n_items))


def in_order(data: Dataset, u: int) -> list[int]:
    rows = [(0 if data.time is None else data.time[r], r) for r in range(len(data)) if data.user[r] == u]
    return [int(data.item[r]) for _, r in sorted(rows)]


@given(st.integers(0, 1000), st.booleans(), st.integers(1, 12))
@settings(max_examples=30, deadline=None)
def test_the_last_items_stand_in_the_order_of_time_and_of_the_file(seed: int, timed: bool, length: int) -> None:
    data = world(seed, timed=timed)
    found = make_histories(data).last_items(torch.arange(5), length)
    for u in range(5):
        expected = in_order(data, u)[-length:]
        assert found[u].tolist() == [9] * (length - len(expected)) + expected


def test_held_back_items_come_last() -> None:
    data = world(3, rows=60)
    split = leave_one_out(data)
    whole, shown = make_histories(data), make_histories(split.train, split.valid)
    alone = make_histories(split.train)
    for u in split.test.user.tolist():
        everything = in_order(data, u)
        assert shown.last_items(torch.tensor([u]), len(everything) - 1)[0].tolist() == everything[:-1]
        assert alone.last_items(torch.tensor([u]), len(everything) - 2)[0].tolist() == everything[:-2]
    assert torch.equal(whole.sizes, torch.as_tensor(np.bincount(data.user, minlength=5)))


def test_nothing_is_read_outside_a_users_own_history() -> None:
    line = make_histories(world(1))
    users = torch.arange(5)
    far = torch.arange(-50, 100).expand(5, -1)
    found = line.items_at(users, far)
    for u in range(5):
        inside = (far[u] >= line.start[u]) & (far[u] < line.start[u + 1])
        assert torch.equal(found[u] != 9, inside)


@given(st.integers(0, 1000), st.integers(1, 15))
@settings(max_examples=40, deadline=None)
def test_every_item_lies_in_exactly_one_window(seed: int, length: int) -> None:
    line = make_histories(world(seed))
    windows = Windows(line, length)
    begin, end = windows.draw_bounds(seeded(seed))
    assert ((end - begin >= 1) & (end - begin <= length)).all()
    places = torch.cat([torch.arange(b, e) for b, e in zip(begin.tolist(), end.tolist(), strict=True)])
    assert places.sort().values.tolist() == list(range(len(line.item) - 1))
    assert (line.start[windows.user] <= begin).all()
    assert (end <= line.start[windows.user + 1]).all()
    assert len(windows) == int(torch.ceil(line.sizes / length).sum())


def test_long_histories_are_cut_elsewhere_each_time_and_short_ones_never() -> None:
    data = world(0, rows=39)
    line = make_histories(data)
    source = seeded()
    cut = Windows(line, 4)
    assert len({tuple(cut.draw_bounds(source)[0].tolist()) for _ in range(30)}) > 10
    whole = Windows(line, 39)
    assert all(torch.equal(whole.draw_bounds(source)[1], line.start[1:5]) for _ in range(10))


def test_without_a_history_there_is_nothing_to_cut() -> None:
    with pytest.raises(DataError, match="nothing to learn from"):
        Windows(make_histories(world(0).take(np.zeros(40, bool))), 3)


@given(st.integers(0, 1000), st.floats(0.05, 0.95))
@settings(max_examples=30, deadline=None)
def test_chosen_places_are_those_of_the_mask(seed: int, share: float) -> None:
    mask = torch.rand(4, 3, 5, generator=seeded(seed)) < share
    index, real = index_places(mask)
    for step in range(4):
        assert index[step][real[step]].tolist() == mask[step].flatten().nonzero()[:, 0].tolist()
    assert index.shape[1] == int(mask.flatten(1).sum(1).max())


def test_the_loss_counts_only_real_targets() -> None:
    states, items = torch.randn(4, 3, generator=seeded()), torch.randn(6, 3, generator=seeded(1))
    logits = (states @ items.T).numpy().astype(np.float64)
    likely = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    loss = compute_softmax_loss(states, items, torch.tensor([2, -100, 5, -100])).item()
    assert loss == pytest.approx(-(likely[0, 2] + likely[2, 5]) / 2, rel=1e-5)


def test_blocks_give_the_same_rows_and_keep_the_gradient_whole() -> None:
    x = torch.randn(10, 2, generator=seeded(), requires_grad=True)
    calls: list[int] = []

    def rows(users: torch.Tensor) -> torch.Tensor:
        calls.append(len(users))
        return x[users] * 2

    with torch.no_grad():
        assert torch.equal(apply_in_blocks(rows, torch.arange(10), 4), 2 * x)
    assert calls == [4, 4, 2]
    assert apply_in_blocks(rows, torch.arange(10), 4).requires_grad
    assert calls[3:] == [10]


def test_the_checkerboard_is_read_in_turn() -> None:
    board = make_checkerboard(n_items=5, copies=1)
    assert make_histories(board.train, board.valid).last_items(torch.tensor([1]), 5)[0].tolist() == [10, 1, 2, 3, 4]
