from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from recveil.audits.membership.histories import KnownHistories, split_histories
from recveil.core.errors import DataError
from recveil.core.types import Dataset


def make_data() -> Dataset:
    """Two users whose rows are mixed; the second has too few items to hold one out."""
    user, item, time = np.array([0, 1, 0, 0, 1]), np.array([3, 1, 2, 0, 4]), np.array([30, 5, 10, 20, 1])
    return Dataset("mixed", user, item, time, np.arange(2), np.arange(5))


def test_the_newest_item_is_held_out_where_there_are_enough() -> None:
    known = KnownHistories.hold_out_newest(make_data())
    assert known.held_out.tolist() == [3, -1]
    assert [history.tolist() for history in known.histories] == [[2, 0], [4, 1]]


def test_without_times_the_order_of_rows_decides_nothing() -> None:
    rng = np.random.default_rng(0)
    user, item = np.repeat(np.arange(50), 6), np.tile(np.arange(6), 50)
    data = Dataset("untimed", user, item, None, np.arange(50), np.arange(6))
    known, shuffled = (KnownHistories.hold_out_newest(d) for d in (data, data.take(rng.permutation(len(data)))))
    assert np.array_equal(known.held_out, shuffled.held_out)
    assert set(known.held_out.tolist()) == set(range(6))
    assert (np.bincount(known.history.user) == 5).all()


def test_a_user_without_a_history_is_refused() -> None:
    with pytest.raises(DataError, match="1 of 3 users of 'mixed' have no history"):
        KnownHistories.hold_out_newest(replace(make_data(), user_ids=np.arange(3)))


def test_histories_are_split_by_user() -> None:
    data = make_data()
    ordered = data.take(np.lexsort((data.time, data.user)))
    assert [history.tolist() for history in split_histories(ordered)] == [[2, 0, 3], [4, 1]]
