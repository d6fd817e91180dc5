"""Rows of users: shares that hold on average, the greatest of each user, and places for what is added."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recveil.core.errors import DataError, UsageError
from recveil.core.types import Attribute, Dataset
from recveil.defenses.data.profiles import (
    count_interactions,
    insert_items,
    mark_top_rows,
    round_share,
    select_attributes,
)


def data(user: list[int], item: list[int], time: list[int] | None, n_users: int = 4, n_items: int = 10) -> Dataset:
    when = None if time is None else np.array(time)
    return Dataset("small", np.array(user), np.array(item), when, np.arange(n_users), np.arange(n_items))


@given(st.floats(0, 1), st.integers(0, 200), st.integers(0, 2**32))
@settings(max_examples=50, deadline=None)
def test_a_share_is_rounded_one_way_or_the_other(share: float, count: int, seed: int) -> None:
    taken = round_share(np.full(20, count), share, np.random.default_rng(seed))
    assert (taken >= np.floor(share * count)).all()
    assert (taken <= np.ceil(share * count)).all()


def test_a_share_holds_on_average_also_for_short_profiles() -> None:
    taken = round_share(np.full(100_000, 19), 0.01, np.random.default_rng(0))
    assert set(taken.tolist()) == {0, 1}
    assert taken.mean() == pytest.approx(0.19, abs=5 * np.sqrt(0.19 * 0.81 / 1e5))
    assert not round_share(np.full(100_000, 19), 0.0, np.random.default_rng(0)).any()


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 99)), max_size=30),
    st.lists(st.integers(0, 5), min_size=4, max_size=4),
)
@settings(max_examples=100, deadline=None)
def test_the_greatest_of_each_user_by_brute_force(rows: list[tuple[int, int]], count: list[int]) -> None:
    user = np.array([u for u, _ in rows], dtype=np.int64)
    key = np.array([k for _, k in rows], dtype=np.float64)
    marked = mark_top_rows(user, key, np.array(count))
    for u in range(4):
        mine = np.sort(key[user == u])[::-1]
        np.testing.assert_array_equal(np.sort(key[marked & (user == u)])[::-1], mine[: count[u]])


def test_what_is_added_stands_behind_a_row_of_its_user_and_has_its_time() -> None:
    train = data([2, 0, 2, 0, 1], [5, 1, 6, 2, 3], [50, 10, 60, 20, 30])
    places = set()
    for seed in range(30):
        out = insert_items(train, np.array([2]), np.array([9]), rng=np.random.default_rng(seed))
        at = int(np.flatnonzero(out.item == 9)[0])
        assert (out.user[at - 1], out.time[at - 1]) == (2, out.time[at])
        kept = out.take(out.item != 9)
        np.testing.assert_array_equal(np.stack([kept.user, kept.item, kept.time]), [train.user, train.item, train.time])
        places.add(at)
    assert places == {1, 3}  # each of the user's own rows has its turn


def test_rows_can_go_while_others_come() -> None:
    train = data([0, 0, 1], [1, 2, 3], [10, 20, 30])
    keep = np.array([False, False, True])
    out = insert_items(train, np.array([0]), np.array([7]), rng=np.random.default_rng(0), keep=keep)
    assert out.item.tolist() == [7, 3]
    assert out.time[0] in (10, 20)


def test_a_user_who_had_nothing_is_put_at_the_end() -> None:
    train = data([0, 0, 1], [1, 2, 3], [10, 20, 30])
    out = insert_items(train, np.array([3, 0]), np.array([7, 8]), rng=np.random.default_rng(0))
    assert (out.user[-1], out.item[-1]) == (3, 7)
    assert out.time[-1] in (10, 20, 30)
    bare = insert_items(replace(train, time=None), np.array([3]), np.array([7]), rng=np.random.default_rng(0))
    assert bare.time is None
    assert bare.user.tolist() == [0, 0, 1, 3]


def test_lengths_count_users_without_rows_too() -> None:
    assert count_interactions(data([2, 0, 2], [1, 1, 3], None)).tolist() == [1, 0, 2, 0]


def test_names_and_shares_are_checked() -> None:
    secrets = {
        "gender": Attribute("gender", np.zeros(4, dtype=np.int64), ("F",)),
        "age": Attribute("age", np.full(4, -1), (), np.arange(4.0)),
    }
    train = replace(data([0], [1], None), attributes=secrets)
    assert [a.name for a in select_attributes(train, ["age", "gender"])] == ["age", "gender"]
    with pytest.raises(DataError, match="'age' is a number"):
        select_attributes(train, ["age"], numbers=False)
    with pytest.raises(UsageError, match="Did you mean 'gender'"):
        select_attributes(train, ["gendre"])
