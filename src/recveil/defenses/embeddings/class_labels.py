"""Class labels of any kind as codes: strings, whole numbers or booleans, one column for each attribute.

Undisclosed labels are None, NaN or, among whole numbers, -1; they get the code -1.
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from recveil.core.errors import DataError
from recveil.core.types import UNDISCLOSED, Attribute, IntArray

__all__ = ["apply_classes", "encode_classes", "match_classes", "refuse_unseen_class"]

Labels = NDArray[Any]
"""Labels of one attribute: int64 or strings."""


def encode_classes(y: ArrayLike, n_users: int) -> tuple[IntArray, list[Labels]]:
    """Find the classes of each attribute, and encode every label as its place among the sorted classes.

    Args:
        y: labels, (n_users,) or (n_users, n_attributes).
        n_users: the number of rows that there must be.

    Returns:
        Codes of shape (n_users, n_attributes), and the sorted classes of each attribute.

    Raises:
        DataError: there are other numbers of rows, or labels that are neither all text nor all whole numbers.
    """
    columns = [_normalize_column(column) for column in _split_columns(y, n_users)]
    classes = [np.unique(labels[disclosed]) for labels, disclosed in columns]
    return _look_up(columns, classes), classes


def apply_classes(y: ArrayLike | None, classes: list[Labels], n_users: int) -> IntArray:
    """Encode labels by the classes of a fit; labels that it did not meet count as undisclosed.

    Args:
        y: labels, (n_users,) or (n_users, n_attributes); None if all are undisclosed.
        classes: sorted classes of each attribute, as `encode_classes` returns them.
        n_users: the number of rows that there must be.

    Returns:
        Codes of shape (n_users, n_attributes).

    Raises:
        DataError: there are other numbers of rows or attributes than at the fit, or labels of another kind.
    """
    if y is None:
        return np.full((n_users, len(classes)), UNDISCLOSED, dtype=np.int64)
    columns = [_normalize_column(column) for column in _split_columns(y, n_users)]
    if len(columns) != len(classes):
        raise DataError(f"y holds {len(columns)} attributes, and the map was fitted with {len(classes)}.")
    for (labels, disclosed), known in zip(columns, classes, strict=True):
        if disclosed.any() and len(known) and labels.dtype.kind != known.dtype.kind:
            kinds = {"i": "whole numbers", "U": "text"}
            raise DataError(
                f"y holds {kinds[labels.dtype.kind]}, and the map was fitted with {kinds[known.dtype.kind]}. "
                "Give labels of the same kind."
            )
    return _look_up(columns, classes)


def _look_up(columns: list[tuple[Labels, NDArray[np.bool_]]], classes: list[Labels]) -> IntArray:
    codes = np.full((len(columns[0][0]), len(columns)), UNDISCLOSED, dtype=np.int64)
    for j, ((labels, disclosed), known) in enumerate(zip(columns, classes, strict=True)):
        if len(known) and disclosed.any():
            place = np.searchsorted(known, labels[disclosed]).clip(max=len(known) - 1)
            codes[disclosed, j] = np.where(known[place] == labels[disclosed], place, UNDISCLOSED)
    return codes


def _split_columns(y: ArrayLike, n_users: int) -> list[Labels]:
    # A list of texts and NaN becomes an array of texts, "nan" among them, unless it is an array of objects first.
    labels = np.asarray(y, dtype=object) if isinstance(y, list | tuple) else np.asarray(y)
    if labels.ndim not in (1, 2) or len(labels) != n_users or labels.size == 0:
        raise DataError(
            f"y must hold a label for each of {n_users:,} users, or a row of labels; got shape {labels.shape}."
        )
    return list(labels.reshape(n_users, -1).T)


def _normalize_column(column: Labels) -> tuple[Labels, NDArray[np.bool_]]:
    """Return the labels of one attribute as int64 or text, and which of them are disclosed."""
    if column.dtype.kind in "iub":
        whole = column.astype(np.int64)
        return whole, whole != UNDISCLOSED
    if column.dtype.kind == "f":
        return _normalize_floats(column)
    if column.dtype.kind in "US":
        return column.astype(np.str_), np.ones(len(column), dtype=np.bool_)
    if column.dtype.kind == "O":
        return _normalize_objects(column)
    raise DataError(f"y must hold text, whole numbers or booleans; got {column.dtype}.")


def _normalize_floats(column: Labels) -> tuple[Labels, NDArray[np.bool_]]:
    disclosed = ~np.isnan(column)
    with np.errstate(invalid="ignore"):
        whole = np.where(disclosed, column, UNDISCLOSED).astype(np.int64)
    if (whole[disclosed] != column[disclosed]).any():
        raise DataError(
            "Unknown label type: y holds numbers that are not whole, and a defense needs classes. "
            "Cut the numbers into classes first, for instance with numpy.digitize."
        )
    return whole, disclosed & (whole != UNDISCLOSED)


def _normalize_objects(column: Labels) -> tuple[Labels, NDArray[np.bool_]]:
    disclosed = np.array([not _is_missing(label) for label in column], dtype=np.bool_)
    labels = column[disclosed].tolist()
    if all(isinstance(label, str) for label in labels):
        text = np.zeros(len(column), dtype=f"U{max(map(len, labels), default=1) or 1}")
        text[disclosed] = labels
        # Without any label the kind is open; whole numbers are what a column of -1 would be.
        return (text, disclosed) if labels else (np.full(len(column), UNDISCLOSED, dtype=np.int64), disclosed)
    if all(isinstance(label, Real) for label in labels):
        numbers = np.full(len(column), np.nan)
        numbers[disclosed] = labels
        return _normalize_floats(numbers)
    kinds = ", ".join(sorted({type(label).__name__ for label in labels}))
    raise DataError(f"The labels of an attribute must be all text or all whole numbers; got {kinds}.")


def _is_missing(label: object) -> bool:
    try:
        return label is None or bool(label != label)  # NaN differs from itself
    except TypeError:  # pandas.NA cannot say whether it does
        return True


def match_classes(attribute: Attribute, counts: IntArray, known: Sequence[str]) -> IntArray:
    """Return for each value the code that a map has for its class.

    Args:
        attribute: classes of the values.
        counts: users of each value.
        known: classes that the map knows, in the order of their codes.

    Raises:
        DataError: users have a class that the map never saw.
    """
    place = {label: code for code, label in enumerate(known)}
    disclosed = attribute.codes >= 0
    n = np.bincount(attribute.codes[disclosed], counts[disclosed], minlength=len(attribute.labels))
    unseen = [attribute.labels[k] for k in np.flatnonzero(n) if attribute.labels[k] not in place]
    if unseen:
        raise refuse_unseen_class(attribute.name, unseen[0], known)
    codes = np.array([place.get(label, UNDISCLOSED) for label in attribute.labels] + [UNDISCLOSED], dtype=np.int64)
    return np.asarray(codes[attribute.codes])


def refuse_unseen_class(name: str, label: str, known: Sequence[str]) -> DataError:
    """Return the error for a class that the fit did not meet."""
    return DataError(
        f"The map never saw the class '{label}' of '{name}'; it knows {', '.join(known)}. Write the classes alike, or "
        "leave the attribute of these users blank."
    )
