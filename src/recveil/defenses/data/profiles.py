"""Users' profiles: how many items to change, which of a user's rows come first, and adding items to the data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from recveil.core.errors import DataError, UsageError, unknown_name
from recveil.core.types import Attribute, Dataset, FloatArray, IntArray

__all__ = ["check_share", "lengths", "named", "some_of", "top_rows", "with_items"]


def check_share(name: str, value: float) -> None:
    """Refuse an option that is not a share."""
    if not 0 <= value <= 1:
        raise UsageError(f"{name} must lie between 0 (nothing) and 1 (all of it); got {value:g}.")


def named(train: Dataset, targets: Sequence[str], *, numbers: bool = True) -> list[Attribute]:
    """The attributes of these names; an unknown one, or a number where only classes can be used, is an error."""
    for name in targets:
        if name not in train.attributes:
            raise unknown_name(f"attribute in {train.name}", name, train.attributes)
        if train.attributes[name].is_numeric and not numbers:
            raise DataError(
                f"Attribute '{name}' is a number, not a class. Cut it into classes, as in --bins {name}=35,45."
            )
    return [train.attributes[name] for name in targets]


def lengths(train: Dataset) -> IntArray:
    """How many interactions each user has."""
    return np.bincount(train.user, minlength=train.n_users).astype(np.int64)


def some_of(counts: IntArray, share: float, rng: np.random.Generator) -> IntArray:
    """This share of each count, rounded up or down at random so that it holds on average.

    Rounded the same way for all, 1 % of a profile of twenty items would be nothing, or five per cent.
    """
    return np.floor(share * counts + rng.random(len(counts))).astype(np.int64)


def top_rows(user: IntArray, key: FloatArray, count: IntArray) -> NDArray[np.bool_]:
    """Marks, of the rows of each user, the `count[user]` with the greatest key."""
    order = np.lexsort((-key, user))
    size = np.bincount(user, minlength=len(count))
    place = np.arange(len(user)) - np.repeat(np.cumsum(size) - size, size)
    marked = np.zeros(len(user), dtype=np.bool_)
    marked[order] = place < count[user[order]]
    return marked


def with_items(
    train: Dataset,
    user: IntArray,
    item: IntArray,
    *,
    rng: np.random.Generator,
    keep: NDArray[np.bool_] | None = None,
) -> Dataset:
    """The data with these pairs added, and without the rows that are not in `keep`.

    Each added row stands right behind one of the user's own rows, drawn at random, and has its time. So the rows stay
    in whatever order they were in, recency-aware and sequential models take an added item for an ordinary one, and
    nothing happens at a time when the user was not there. A user who had nothing is put at the end, at a time drawn
    from everybody's.
    """
    n = len(train)
    size = lengths(train)
    if not n:
        return train
    by_user = np.argsort(train.user, kind="stable")
    nth = np.cumsum(size)[user] - 1 - (rng.random(len(user)) * size[user]).astype(np.int64)
    stranger = size[user] == 0
    beside = np.where(stranger, rng.integers(n, size=len(user)), by_user[nth])
    rows = np.arange(n) if keep is None else np.flatnonzero(keep)
    order = np.argsort(np.concatenate([rows, np.where(stranger, n, beside)]), kind="stable")
    time = None if train.time is None else np.concatenate([train.time[rows], train.time[beside]])[order]
    return replace(
        train,
        user=np.concatenate([train.user[rows], user])[order],
        item=np.concatenate([train.item[rows], item])[order],
        time=time,
    )
