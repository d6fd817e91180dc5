"""Cleaning: what counts as an interaction, once each, among users and items that have enough of them.

The order is fixed: rating threshold, duplicates, k-core, age bands. Afterwards ids are numbered anew, so that no user
or item without an interaction remains, and attributes follow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recveil.core.errors import DataError
from recveil.core.types import Dataset, FloatArray, IntArray
from recveil.data.io.attributes import convert_to_numbers, cut_numbers, drop_empty_classes
from recveil.data.io.tables import RawTables, build_dataset

__all__ = [
    "AGE3_EDGES",
    "AGE7_EDGES",
    "NO_CLEANING",
    "Cleaning",
    "filter_ratings",
    "clean_dataset",
    "renumber_ids",
    "drop_duplicates",
    "k_core",
    "mask_implausible_ages",
    "add_age_bands",
]

AGE3_EDGES = (35, 45)
"""The three age classes of RAID: <35, 35-44, 45+."""
AGE7_EDGES = (18, 25, 35, 45, 50, 56)
"""The seven age bands of MovieLens 1M, whose codes are the lower ends: 1, 18, 25, 35, 45, 50, 56."""


@dataclass(frozen=True)
class Cleaning:
    """How much a user and an item must have to stay (0: anything), and the rating from which one counts (None: any)."""

    user_core: int = 0
    item_core: int = 0
    min_rating: float | None = None


NO_CLEANING = Cleaning()
"""Every interaction counts and everybody stays."""


def clean_dataset(
    raw: RawTables,
    name: str,
    cleaning: Cleaning = NO_CLEANING,
    *,
    numeric: Sequence[str] = (),
    bins: Mapping[str, Sequence[float]] | None = None,
    keep: Sequence[str] = (),
) -> Dataset:
    """A clean data set from what a loader found, with `age3` and `age7` where the users have an age in years.

    See `dataset_from_tables` for `numeric`, `bins` and `keep`.
    """
    interactions = filter_ratings(raw.interactions, cleaning.min_rating, name)
    dataset = build_dataset(name, interactions, raw.users, numeric=numeric, bins=bins, keep=keep)
    core = k_core(drop_duplicates(dataset), user_core=cleaning.user_core, item_core=cleaning.item_core)
    return add_age_bands(core)


def filter_ratings(interactions: pa.Table, min_rating: float | None, name: str) -> pa.Table:
    """The interactions rated at least `min_rating`; without a threshold every one counts, rated or not.

    With a threshold, an interaction without a rating does not count.
    """
    if min_rating is None:
        return interactions
    if "rating" not in interactions.column_names:
        raise DataError(f"The data set '{name}' has no ratings, so none is {min_rating:g} or more. Drop the threshold.")
    rating = interactions.column("rating")
    if not (pa.types.is_integer(rating.type) or pa.types.is_floating(rating.type)):
        raise DataError(f"The ratings of '{name}' are not numbers. Write them as numbers or drop the threshold.")
    kept = interactions.filter(pc.fill_null(pc.greater_equal(rating, min_rating), False))
    if kept.num_rows == 0:
        raise DataError(f"No interaction of '{name}' is rated {min_rating:g} or more. Lower the threshold.")
    return kept


def drop_duplicates(dataset: Dataset) -> Dataset:
    """Each pair of user and item once: the earliest in time, the first row among equals or where there is no time."""
    pair = dataset.user * dataset.n_items + dataset.item
    keys = (pair,) if dataset.time is None else (dataset.time, pair)
    order = np.lexsort(keys)  # stable, so rows that tie stay in the order of the file
    first = np.ones(len(pair), dtype=np.bool_)
    first[1:] = np.diff(pair[order]) != 0
    return dataset if first.all() else dataset.take(np.sort(order[first]))


def k_core(dataset: Dataset, *, user_core: int, item_core: int) -> Dataset:
    """The largest part in which every user has `user_core` and every item `item_core` interactions or more.

    Users and items that have too few are removed until none is left to remove; that fixed point is unique.
    """
    user, item = dataset.user, dataset.item
    rows = np.arange(len(dataset))
    while True:
        keep = (_count_rows(user, dataset.n_users) >= user_core) & (_count_rows(item, dataset.n_items) >= item_core)
        if keep.all():
            break
        user, item, rows = user[keep], item[keep], rows[keep]
    if len(rows) == 0:
        raise DataError(
            f"Nothing is left of '{dataset.name}' when every user must have {user_core} and every item {item_core} "
            "interactions. Ask for fewer."
        )
    return renumber_ids(dataset.take(rows))


def renumber_ids(dataset: Dataset) -> Dataset:
    """The same interactions with ids numbered anew: users, items and classes that nobody has are gone."""
    users, user = np.unique(dataset.user, return_inverse=True)
    items, item = np.unique(dataset.item, return_inverse=True)
    attributes = {name: drop_empty_classes(known.take(users)) for name, known in dataset.attributes.items()}
    return replace(
        dataset,
        user=user.astype(np.int64),
        item=item.astype(np.int64),
        user_ids=dataset.user_ids[users],
        item_ids=dataset.item_ids[items],
        attributes=attributes,
    )


def add_age_bands(dataset: Dataset) -> Dataset:
    """The data set with `age3` (RAID) and `age7` (MovieLens' bands) beside `age`, where age is in years.

    MovieLens 1M gives the lower end of the band instead of the years (1 for under 18): the bands then map directly.
    Where nobody is 18 or more the numbers are taken for codes, and no bands are made.
    """
    age = dataset.attributes.get("age")
    years = None if age is None else convert_to_numbers(age)
    if years is None or not (years >= 18).any():
        return dataset
    bands = {name: cut_numbers(name, years, edges) for name, edges in (("age3", AGE3_EDGES), ("age7", AGE7_EDGES))}
    return replace(dataset, attributes={**dataset.attributes, **bands})


def mask_implausible_ages(users: pa.Table, *, low: int = 5, high: int = 100) -> pa.Table:
    """The users with an age outside these years made unknown; for data in which people typed what they liked."""
    if "age" not in users.column_names:
        return users
    try:
        years = users.column("age").cast(pa.float64())
    except pa.ArrowInvalid:
        return users
    plausible = pc.and_(pc.greater_equal(years, low), pc.less_equal(years, high))
    ages = pc.if_else(plausible, years, None).cast(pa.float64())
    return users.set_column(users.column_names.index("age"), "age", ages)


def _count_rows(ids: IntArray, n: int) -> IntArray | FloatArray:
    """For each row how many rows have its id."""
    return np.bincount(ids, minlength=n)[ids]
