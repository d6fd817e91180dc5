"""Splits: held-out items are the right ones, and nothing is lost or counted twice."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recveil.core.errors import DataError, UsageError
from recveil.core.types import Dataset, Split
from recveil.data.splits import leave_one_out, split_by_ratio


def dataset(user: list[int], item: list[int], time: list[int] | None, n_users: int | None = None) -> Dataset:
    users = max(user, default=-1) + 1 if n_users is None else n_users
    return Dataset(
        "tiny",
        np.array(user, dtype=np.int64),
        np.array(item, dtype=np.int64),
        None if time is None else np.array(time, dtype=np.int64),
        np.arange(users),
        np.arange(100),
    )


def pairs(part: Dataset) -> list[tuple[int, int]]:
    return list(zip(part.user.tolist(), part.item.tolist(), strict=True))


def check_partition(whole: Dataset, split: Split) -> None:
    parts = [split.train, split.valid, split.test]
    assert sorted(sum(map(pairs, parts), [])) == sorted(pairs(whole))
    assert all(part.n_users == whole.n_users and part.n_items == whole.n_items for part in parts)


@st.composite
def histories(draw: st.DrawFn) -> Dataset:
    lengths = draw(st.lists(st.integers(0, 8), min_size=1, max_size=6))
    rows = [(user, item) for user, length in enumerate(lengths) for item in range(length)]
    rows = draw(st.permutations(rows))
    time = draw(st.lists(st.integers(0, 3), min_size=len(rows), max_size=len(rows)))
    return dataset([u for u, _ in rows], [i for _, i in rows], time, len(lengths))


@settings(deadline=None)
@given(histories())
def test_leave_one_out_holds_back_the_last_two_of_each_user(data: Dataset) -> None:
    lengths = np.bincount(data.user, minlength=data.n_users)
    if (lengths < 3).all():
        with pytest.raises(DataError, match="none of its"):
            leave_one_out(data)
        return
    split = leave_one_out(data)
    check_partition(data, split)
    for user in range(data.n_users):
        # The oracle: order by time, rows of equal time as in the file.
        mine = np.flatnonzero(data.user == user)
        ordered = data.item[mine[np.argsort(data.time[mine], kind="stable")]].tolist()
        held = [split.valid.item[split.valid.user == user].tolist(), split.test.item[split.test.user == user].tolist()]
        assert held == ([ordered[-2:-1], ordered[-1:]] if len(ordered) >= 3 else [[], []])
        assert (split.train.user == user).any() == bool(ordered)


def test_among_equal_times_the_last_row_is_the_test_item() -> None:
    split = leave_one_out(dataset([0, 0, 0, 0], [7, 8, 9, 5], [1, 2, 2, 0]))
    assert pairs(split.test) == [(0, 9)]
    assert pairs(split.valid) == [(0, 8)]
    assert pairs(split.train) == [(0, 7), (0, 5)]


def test_without_times_the_held_out_items_are_drawn_at_random_and_a_warning_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    data = dataset([0] * 50, list(range(50)), None)
    drawn = {leave_one_out(data, rng=np.random.default_rng(seed)).test.item[0] for seed in range(20)}
    assert len(drawn) > 5
    for rng in (lambda: np.random.default_rng(3), lambda: None):
        once, again = (leave_one_out(data, rng=rng()) for _ in range(2))
        check_partition(data, once)
        np.testing.assert_array_equal(once.test.item, again.test.item)
    assert all("'tiny' has no timestamps" in record.message for record in caplog.records)
    assert len(caplog.records) == 24


def test_the_order_of_the_rows_is_used_only_when_asked_for(caplog: pytest.LogCaptureFixture) -> None:
    data = dataset([0] * 50, list(range(50)), None)
    split = leave_one_out(data, file_order=True)
    assert pairs(split.test) + pairs(split.valid) == [(0, 49), (0, 48)]
    assert pairs(leave_one_out(data).test) != [(0, 49)]
    timed = dataset([0, 0, 0], [1, 2, 3], [3, 1, 2])
    assert pairs(leave_one_out(timed, file_order=True).test) == [(0, 1)]
    assert len(caplog.records) == 1  # of the random draw


def test_with_times_the_generator_changes_nothing() -> None:
    data = dataset([0, 0, 0], [1, 2, 3], [3, 1, 2])
    assert pairs(leave_one_out(data, rng=np.random.default_rng(0)).test) == [(0, 1)]


@settings(deadline=None)
@given(histories(), st.sampled_from([(0.2, 0.1), (0.5, 0.3), (0.34, 0.0)]), st.booleans())
def test_ratio_takes_its_shares_of_each_user(data: Dataset, shares: tuple[float, float], by_chance: bool) -> None:
    test, valid = shares
    lengths = np.bincount(data.user, minlength=data.n_users)
    rng = np.random.default_rng(0) if by_chance else None
    if (np.floor(lengths * test) == 0).all():
        with pytest.raises(DataError, match="test share"):
            split_by_ratio(data, test=test, valid=valid, rng=rng)
        return
    split = split_by_ratio(data, test=test, valid=valid, rng=rng)
    check_partition(data, split)
    np.testing.assert_array_equal(np.bincount(split.test.user, minlength=data.n_users), np.floor(lengths * test))
    np.testing.assert_array_equal(np.bincount(split.valid.user, minlength=data.n_users), np.floor(lengths * valid))
    assert set(split.train.user.tolist()) == set(data.user.tolist())


def test_ratio_without_a_generator_tests_on_the_latest() -> None:
    data = dataset([0] * 10, list(range(10)), list(range(10, 0, -1)))
    split = split_by_ratio(data, test=0.2, valid=0.1)
    assert sorted(split.test.item.tolist()) == [0, 1]
    assert split.valid.item.tolist() == [2]


def test_ratio_is_not_short_by_one_for_floating_point() -> None:
    assert len(split_by_ratio(dataset([0] * 100, list(range(100)), None), test=0.29, valid=0.0).test) == 29


@pytest.mark.parametrize(("test", "valid"), [(0.0, 0.1), (0.9, 0.1), (0.5, 0.7), (-0.1, 0.1), (0.2, -0.1)])
def test_ratio_refuses_shares_that_leave_nothing(test: float, valid: float) -> None:
    with pytest.raises(UsageError, match="less than 1"):
        split_by_ratio(dataset([0], [0], None), test=test, valid=valid)


def test_random_splits_do_not_depend_on_the_order_of_the_rows() -> None:
    rng = np.random.default_rng(3)
    user, item = np.unique(rng.integers((30, 25), size=(400, 2)), axis=0).T
    data = Dataset("no times", user, item, None, np.arange(30), np.arange(25))

    def list_test_pairs(rows: np.ndarray, draw: Callable[[Dataset], Split]) -> set[tuple[int, int]]:
        part = draw(data.take(rows)).test
        return set(zip(part.user.tolist(), part.item.tolist(), strict=True))

    for draw in (leave_one_out, lambda data: split_by_ratio(data, rng=np.random.default_rng(1))):
        assert list_test_pairs(np.arange(len(user)), draw) == list_test_pairs(rng.permutation(len(user)), draw)


def test_data_that_cannot_be_split_say_so_and_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    data = Dataset("short", np.arange(5), np.arange(5), None, np.arange(5), np.arange(5))
    with pytest.raises(DataError, match="cannot be split"):
        leave_one_out(data)
    assert not caplog.records
