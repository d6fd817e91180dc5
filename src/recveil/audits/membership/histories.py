"""Histories of the users of a platform, without the newest item of each."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from recveil.core.errors import DataError
from recveil.core.random import make_generator
from recveil.core.types import Dataset, IntArray
from recveil.data.splits import draw_row_keys

__all__ = ["KnownHistories", "split_histories"]

MIN_ITEMS_TO_HOLD_OUT = 3
"""Of users with fewer items none is held out."""


@dataclass(frozen=True, eq=False)
class KnownHistories:
    """Interactions in order of user and time, and the held-out item of each user, -1 for none."""

    history: Dataset
    held_out: IntArray

    @classmethod
    def hold_out_newest(cls, data: Dataset) -> KnownHistories:
        """Hold out the newest item of each user who has enough items.

        Without times the item is drawn at random; the order of the rows decides nothing.

        Raises:
            DataError: a user has no interactions.
        """
        times = draw_row_keys(data, make_generator(0, "held out")) if data.time is None else data.time
        order = np.lexsort((data.item, times, data.user))
        size = np.bincount(data.user, minlength=data.n_users)
        if not size.all():
            raise DataError(
                f"{int((size == 0).sum())} of {data.n_users} users of '{data.name}' have no history. "
                "Leave these users out."
            )
        has_enough = size >= MIN_ITEMS_TO_HOLD_OUT
        newest = order[(np.cumsum(size) - 1)[has_enough]]
        held_out = np.full(data.n_users, -1, dtype=np.int64)
        held_out[has_enough] = data.item[newest]
        stays = np.ones(len(data), dtype=np.bool_)
        stays[newest] = False
        return cls(data.take(order[stays[order]]), held_out)

    @cached_property
    def histories(self) -> list[IntArray]:
        """Items of each user, oldest first."""
        return split_histories(self.history)


def split_histories(data: Dataset) -> list[IntArray]:
    """Return the items of each user; the rows are in order of user and time."""
    return np.split(data.item, np.cumsum(np.bincount(data.user, minlength=data.n_users))[:-1])
