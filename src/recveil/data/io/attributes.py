"""Attributes of users from the columns of a table: classes, classes cut from numbers, or numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recveil.core.errors import DataError
from recveil.core.types import UNDISCLOSED, Attribute, FloatArray, IntArray

__all__ = [
    "MAX_CLASSES",
    "AttributeTable",
    "convert_to_numbers",
    "cut_numbers",
    "drop_empty_classes",
    "join_attributes",
    "make_attributes",
]

MAX_CLASSES = 200
"""Distinct values that a column of classes has at most; a column with more holds names or addresses."""

_UNDISCLOSED_WORDS = ("", "nan", "null")


class AttributeTable(dict[str, Attribute]):
    """Attributes by name, with notes on what was left out or changed when they were read.

    Attributes:
        notes: sentences for the reader of the numbers.
    """

    def __init__(self, attributes: Mapping[str, Attribute], notes: Sequence[str] = ()) -> None:
        super().__init__(attributes)
        self.notes = tuple(notes)


def make_attributes(
    users: pa.Table,
    *,
    numeric: Sequence[str] = (),
    bins: Mapping[str, Sequence[float]],
    keep: Sequence[str] = (),
) -> AttributeTable:
    """Make an attribute of every column; null, empty and NaN are undisclosed.

    Lists and columns with more than `MAX_CLASSES` distinct values are left out unless they are named.

    Args:
        users: one row for each user.
        numeric: columns to keep as numbers.
        bins: columns to cut into classes, with the lower edges of all classes but the first.
        keep: columns to make attributes however many values they have.

    Raises:
        DataError: a named column does not exist or does not hold numbers.
    """
    named = {*numeric, *bins, *keep}
    absent = sorted(named - set(users.column_names))
    if absent:
        raise DataError(f"The users have no column '{absent[0]}'. Their columns: {', '.join(users.column_names)}.")
    attributes = {}
    for name in users.column_names:
        column = users.column(name)
        if name in bins:
            attributes[name] = cut_numbers(name, _read_numbers(name, column), bins[name])
        elif name in numeric:
            values = _read_numbers(name, column)
            attributes[name] = Attribute(name, np.full(len(values), UNDISCLOSED, dtype=np.int64), (), values)
        elif not pa.types.is_nested(column.type):
            attribute = _read_classes(name, column)
            if name in keep or len(attribute.labels) <= MAX_CLASSES:
                attributes[name] = attribute
    return AttributeTable(attributes)


def cut_numbers(name: str, values: FloatArray, edges: Sequence[float]) -> Attribute:
    """Cut numbers into classes at the edges; an edge belongs to the class above it.

    Args:
        name: name of the attribute.
        values: the numbers; NaN is undisclosed.
        edges: lower edges of all classes but the first.
    """
    cuts = np.asarray(edges, dtype=np.float64)
    if len(cuts) == 0 or not np.isfinite(cuts).all() or (np.diff(cuts) <= 0).any():
        raise DataError(f"Cannot cut '{name}' at {list(edges)}. Give one or more edges, each above the one before.")
    codes = np.where(np.isnan(values), UNDISCLOSED, np.searchsorted(cuts, values, side="right")).astype(np.int64)
    return drop_empty_classes(Attribute(name, codes, _label_bands(cuts)))


def join_attributes(attributes: Sequence[Attribute]) -> Attribute:
    """Join attributes into one whose classes are the combinations that occur.

    A user is undisclosed if any of the attributes is.
    """
    shape = tuple(len(a.labels) for a in attributes)
    codes = np.stack([a.codes for a in attributes])
    known = (codes != UNDISCLOSED).all(0)
    cells = np.ravel_multi_index(tuple(np.where(known, c, 0) for c in codes), shape)
    labels = tuple(" & ".join(parts) for parts in product(*(a.labels for a in attributes)))
    name = " & ".join(a.name for a in attributes)
    return drop_empty_classes(Attribute(name, np.where(known, cells, UNDISCLOSED).astype(np.int64), labels))


def convert_to_numbers(attribute: Attribute) -> FloatArray | None:
    """Convert the attribute to numbers; None if its classes are no numbers.

    Undisclosed users get NaN.
    """
    if attribute.values is not None:
        return attribute.values
    try:
        known = np.array([float(label) for label in attribute.labels], dtype=np.float64)
    except ValueError:
        return None
    return np.append(known, np.nan)[attribute.codes]


def drop_empty_classes(attribute: Attribute) -> Attribute:
    """Drop the classes that no user has."""
    if attribute.is_numeric:
        return attribute
    used = attribute.counts > 0
    new = np.append(np.where(used, np.cumsum(used) - 1, UNDISCLOSED), UNDISCLOSED).astype(np.int64)
    labels = tuple(label for label, has_users in zip(attribute.labels, used, strict=True) if has_users)
    return replace(attribute, codes=new[attribute.codes], labels=labels)


def _label_bands(cuts: FloatArray) -> tuple[str, ...]:
    whole = bool((cuts == np.floor(cuts)).all())
    low = [f"{edge:g}" for edge in cuts]
    high = [f"{edge - 1:g}" for edge in cuts] if whole else low
    between = [a if whole and a == b else f"{a}-{b}" for a, b in zip(low[:-1], high[1:], strict=True)]
    return (f"<{low[0]}", *between, f"{low[-1]}+")


def _convert_to_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_floating(column.type):
        column = column.cast(pa.float64())
        column = pc.if_else(pc.is_nan(column), None, column)
        if pc.all(pc.equal(pc.floor(column), column), min_count=0).as_py():
            column = column.cast(pa.int64(), safe=False)
    text = pc.utf8_trim_whitespace(column.cast(pa.string()))
    return pc.if_else(pc.is_in(pc.utf8_lower(text), value_set=pa.array(_UNDISCLOSED_WORDS)), None, text)


def _read_numbers(name: str, column: pa.ChunkedArray) -> FloatArray:
    try:
        values: FloatArray = _convert_to_text(column).cast(pa.float64()).to_numpy().astype(np.float64)
    except pa.ArrowInvalid:
        raise DataError(f"The column '{name}' holds text that is not a number. Read it as classes instead.") from None
    return np.where(np.isinf(values), np.nan, values)


def _read_classes(name: str, column: pa.ChunkedArray) -> Attribute:
    text = _convert_to_text(column)
    values = [label for label in text.unique().to_pylist() if label is not None]
    labels = _sort_labels(values)
    codes: IntArray = pc.fill_null(pc.index_in(text, value_set=pa.array(labels, pa.string())), UNDISCLOSED).to_numpy()
    return Attribute(name, codes.astype(np.int64), tuple(labels))


def _sort_labels(labels: list[str]) -> list[str]:
    try:
        return sorted(labels, key=lambda label: (float(label), label))
    except ValueError:
        return sorted(labels)
