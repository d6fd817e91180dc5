"""Non-members get a fair random part of the charts, without their own items; members keep their lists."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse, stats

from recveil.core.errors import DataError, UsageError
from recveil.defenses.lists.popularity import Popularity

POPULARITY = np.array([0, 9, 8, 7, 6, 5, 4, 3, 0, 1.0])


def drawn(n: int, pool: int, seen: sparse.csr_array | None = None, k: int = 3) -> tuple[np.ndarray, np.ndarray]:
    member = np.arange(n) % 2 == 0
    lists = np.tile(np.arange(1, k + 1), (n, 1))
    return member, Popularity(pool)(lists, member, POPULARITY, rng=np.random.default_rng(0), seen=seen)


def test_members_keep_their_lists_and_others_are_drawn_from_the_pool() -> None:
    member, served = drawn(4000, pool=5)
    assert (served[member] == [1, 2, 3]).all()
    others = served[~member]
    assert all(len(set(row)) == 3 for row in others.tolist())
    counts = np.bincount(others[:, 0], minlength=10)
    assert counts[[0, 6, 7, 8, 9]].sum() == 0
    assert stats.chisquare(counts[1:6]).pvalue > 1e-3  # every place of the list is a fair draw


def test_own_items_are_not_listed_and_the_pool_grows_by_them() -> None:
    seen = np.zeros((400, 10))
    seen[:, [1, 2]] = 1
    member, served = drawn(400, pool=4, seen=sparse.csr_array(seen))
    assert set(served[~member].ravel().tolist()) == {3, 4, 5, 6}


def test_a_list_ends_where_nothing_is_left() -> None:
    seen = np.zeros((2, 10))
    seen[1, [1, 2, 3, 4, 5, 6]] = 1
    _, served = drawn(2, pool=8, seen=sparse.csr_array(seen))
    assert sorted(served[1].tolist()) == [-1, 7, 9]
    assert served[1, 2] == -1


def test_what_cannot_be_drawn_is_said() -> None:
    with pytest.raises(UsageError, match="'pool' of Popularity is 0"):
        Popularity(0)
    with pytest.raises(UsageError, match=r"3 items cannot be drawn from a pool of 2"):
        drawn(4, pool=2)
    with pytest.raises(UsageError, match=r"9 items cannot be drawn from a pool of 8"):
        drawn(4, pool=1000, k=9)
    with pytest.raises(DataError, match="There are 4 lists"):
        drawn(4, pool=8, seen=sparse.csr_array(np.zeros((3, 10))))
