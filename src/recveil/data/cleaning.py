"""Cleaning of interactions: rating threshold, duplicates, k-core and age bands, in this order.

Afterwards ids are renumbered, so that no user or item without an interaction remains, and attributes follow.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
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
    "add_age_bands",
    "clean_dataset",
    "drop_duplicates",
    "filter_ratings",
    "k_core",
    "mask_implausible_ages",
    "renumber_ids",
]

AGE3_EDGES = (35, 45)
"""The three age classes of RAID: <35, 35-44, 45+."""
AGE7_EDGES = (18, 25, 35, 45, 50, 56)
"""The seven age bands of MovieLens 1M, whose codes are the lower ends: 1, 18, 25, 35, 45, 50, 56."""


@dataclass(frozen=True)
class Cleaning:
    """Thresholds of cleaning.

    Args:
        user_core: interactions that a user must have; 0 keeps every user.
        item_core: interactions that an item must have; 0 keeps every item.
        min_rating: rating from which an interaction counts; None counts every one.
    """

    user_core: int = 0
    item_core: int = 0
    min_rating: float | None = None


NO_CLEANING = Cleaning()
"""Thresholds that keep every interaction, user and item."""


def clean_dataset(
    raw: RawTables,
    name: str,
    cleaning: Cleaning = NO_CLEANING,
    *,
    numeric: Sequence[str] = (),
    bins: Mapping[str, Sequence[float]] | None = None,
    keep: Sequence[str] = (),
    keep_label: Collection[str] | None = None,
) -> Dataset:
    """Build a clean data set from the tables of a reader.

    It has the attributes `age3` and `age7` where the users have an age in years.

    Args:
        raw: tables of interactions and users.
        name: name of the data set.
        cleaning: thresholds.
        numeric: columns of users to keep as numbers instead of classes.
        bins: columns of users to cut into classes, with the lower edges of all classes but the first.
        keep: columns of users to make attributes however many values they have.
        keep_label: labels to keep as classes though they look undisclosed; None keeps all of them.

    Raises:
        DataError: nothing is left, or the tables cannot be used.
    """
    interactions = filter_ratings(raw.interactions, cleaning.min_rating, name)
    dataset = build_dataset(name, interactions, raw.users, numeric=numeric, bins=bins, keep=keep, keep_label=keep_label)
    core = k_core(drop_duplicates(dataset), user_core=cleaning.user_core, item_core=cleaning.item_core)
    return add_age_bands(core)


def filter_ratings(interactions: pa.Table, min_rating: float | None, name: str) -> pa.Table:
    """Keep the interactions rated at least `min_rating`; None keeps all.

    With a threshold, an interaction without a rating is dropped.

    Args:
        interactions: the table of interactions.
        min_rating: lowest rating that counts.
        name: name of the data set, for errors.

    Raises:
        DataError: there are no ratings, or none is high enough.
    """
    if min_rating is None:
        return interactions
    if "rating" not in interactions.column_names:
        raise DataError(
            f"The data set '{name}' has no ratings, so a threshold of {min_rating:g} cannot be applied. Drop it."
        )
    rating = interactions.column("rating")
    if not (pa.types.is_integer(rating.type) or pa.types.is_floating(rating.type)):
        raise DataError(f"The ratings of '{name}' are not numbers. Write them as numbers or drop the threshold.")
    selected = interactions.filter(pc.fill_null(pc.greater_equal(rating, min_rating), False))
    if selected.num_rows == 0:
        raise DataError(f"No interaction of '{name}' is rated {min_rating:g} or more. Lower the threshold.")
    return selected


def drop_duplicates(dataset: Dataset) -> Dataset:
    """Keep one interaction of each pair of user and item, the earliest.

    Among equal times, and without times, the first row is kept.
    """
    pair = dataset.user * dataset.n_items + dataset.item
    keys = (pair,) if dataset.time is None else (dataset.time, pair)
    order = np.lexsort(keys)  # stable, so rows that tie stay in the order of the file
    first = np.ones(len(pair), dtype=np.bool_)
    first[1:] = np.diff(pair[order]) != 0
    return dataset if first.all() else dataset.take(np.sort(order[first]))


def k_core(dataset: Dataset, *, user_core: int, item_core: int) -> Dataset:
    """Keep the largest part in which users and items have enough interactions.

    Users and items that have too few are removed until none is left to remove; this fixed point is unique.

    Args:
        dataset: the interactions.
        user_core: interactions that a user must have.
        item_core: interactions that an item must have.

    Raises:
        DataError: nothing is left.
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
            "interactions. Lower the thresholds."
        )
    return renumber_ids(dataset.take(rows))


def renumber_ids(dataset: Dataset) -> Dataset:
    """Renumber the ids and drop users, items and classes without interactions."""
    users, user = np.unique(dataset.user, return_inverse=True)
    items, item = np.unique(dataset.item, return_inverse=True)
    attributes = {name: drop_empty_classes(attribute.take(users)) for name, attribute in dataset.attributes.items()}
    return replace(
        dataset,
        user=user.astype(np.int64),
        item=item.astype(np.int64),
        user_ids=dataset.user_ids[users],
        item_ids=dataset.item_ids[items],
        attributes=attributes,
    )


def add_age_bands(dataset: Dataset) -> Dataset:
    """Add `age3` (RAID) and `age7` (MovieLens' bands) beside an `age` in years.

    MovieLens 1M gives the lower end of the band instead of the years (1 for under 18), and the bands map directly. If
    nobody is 18 or older, the numbers are taken for codes and no bands are added.
    """
    age = dataset.attributes.get("age")
    years = None if age is None else convert_to_numbers(age)
    if years is None or not (years >= 18).any():
        return dataset
    bands = {name: cut_numbers(name, years, edges) for name, edges in (("age3", AGE3_EDGES), ("age7", AGE7_EDGES))}
    return replace(dataset, attributes={**dataset.attributes, **bands})


def mask_implausible_ages(users: pa.Table, *, low: int = 5, high: int = 100) -> pa.Table:
    """Make implausible ages undisclosed, for data in which users typed them.

    Args:
        users: the table of users.
        low: lowest plausible age.
        high: highest plausible age.
    """
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
    """Count, for each row, the rows that have its id."""
    return np.bincount(ids, minlength=n)[ids]
