"""Users' profiles: how many items to change, which of a user's rows to take, and items inserted into the data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from recveil.core.errors import DataError, unknown_name
from recveil.core.types import Attribute, Dataset, FloatArray, IntArray

__all__ = ["count_interactions", "insert_items", "mark_top_rows", "round_share", "select_attributes"]


def select_attributes(train: Dataset, targets: Sequence[str], *, numbers: bool = True) -> list[Attribute]:
    """Return the attributes of these names.

    Args:
        train: the data that holds them.
        targets: their names.
        numbers: whether numeric attributes can be used.

    Raises:
        UsageError: a name is unknown.
        DataError: a numeric attribute where only classes can be used.
    """
    for name in targets:
        if name not in train.attributes:
            raise unknown_name(f"attribute in {train.name}", name, train.attributes)
        if train.attributes[name].is_numeric and not numbers:
            raise DataError(f"Attribute '{name}' is a number, not a class. Cut it into classes with bins first.")
    return [train.attributes[name] for name in targets]


def count_interactions(train: Dataset) -> IntArray:
    """Count the interactions of each user."""
    return np.bincount(train.user, minlength=train.n_users).astype(np.int64)


def round_share(counts: IntArray, share: float, rng: np.random.Generator) -> IntArray:
    """Take this share of each count, rounded up or down at random so that the share holds on average.

    If all counts were rounded the same way, 1 % of a profile of twenty items would be nothing, or 5 %.
    """
    return np.floor(share * counts + rng.random(len(counts))).astype(np.int64)


def mark_top_rows(user: IntArray, key: FloatArray, count: IntArray) -> NDArray[np.bool_]:
    """Mark the `count[user]` rows of each user with the greatest key."""
    order = np.lexsort((-key, user))
    size = np.bincount(user, minlength=len(count))
    place = np.arange(len(user)) - np.repeat(np.cumsum(size) - size, size)
    marked = np.zeros(len(user), dtype=np.bool_)
    marked[order] = place < count[user[order]]
    return marked


def insert_items(
    train: Dataset,
    user: IntArray,
    item: IntArray,
    *,
    rng: np.random.Generator,
    keep: NDArray[np.bool_] | None = None,
) -> Dataset:
    """Insert these pairs into the data, and drop the rows that are not in `keep`.

    Each added row follows one of the user's own rows, drawn at random, and takes its time. So the rows keep their
    order, sequential models see nothing special in an added item, and no interaction falls outside the user's times.
    Items of a user without interactions go to the end, at a time drawn from all users.

    Args:
        train: the data.
        user: user of each added pair.
        item: item of each added pair.
        rng: source of the places.
        keep: rows of the data that stay; all by default.
    """
    n = len(train)
    size = count_interactions(train)
    if not n:
        return train
    by_user = np.argsort(train.user, kind="stable")
    nth = np.cumsum(size)[user] - 1 - (rng.random(len(user)) * size[user]).astype(np.int64)
    has_no_rows = size[user] == 0
    neighbor = np.where(has_no_rows, rng.integers(n, size=len(user)), by_user[nth])
    rows = np.arange(n) if keep is None else np.flatnonzero(keep)
    order = np.argsort(np.concatenate([rows, np.where(has_no_rows, n, neighbor)]), kind="stable")
    time = None if train.time is None else np.concatenate([train.time[rows], train.time[neighbor]])[order]
    return replace(
        train,
        user=np.concatenate([train.user[rows], user])[order],
        item=np.concatenate([train.item[rows], item])[order],
        time=time,
    )
