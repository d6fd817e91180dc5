"""Ids from different files: made comparable, matched, and refused where one is missing or given twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from recveil.core.errors import DataError
from recveil.core.types import IntArray

__all__ = [
    "Ids",
    "unify_types",
    "as_numpy",
    "normalize_ids",
    "require_positions",
    "find_positions",
    "refuse_duplicates",
]

Ids: TypeAlias = pa.Array | pa.ChunkedArray | NDArray[Any]  # type: ignore[misc, valid-type, unused-ignore]


def normalize_ids(ids: Ids, where: str | Path) -> pa.Array:
    """The ids as 64-bit whole numbers or as text; one that is missing, or a fraction, is an error."""
    array = ids if isinstance(ids, pa.Array | pa.ChunkedArray) else pa.array(ids)
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_floating(array.type):
        array = pc.if_else(pc.is_nan(array), None, array)
    whole = pa.types.is_integer(array.type) or pa.types.is_floating(array.type)
    try:
        array = array.cast(pa.int64() if whole else pa.large_string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise DataError(
            f"Some ids in {where} are neither whole numbers nor text. Write every id as a whole number or as text."
        ) from None
    empty = 0 if whole else pc.sum(pc.equal(array, ""), min_count=0).as_py()
    missing = array.null_count + empty
    if missing:
        raise DataError(f"{missing} rows of {where} have no id. Fill them in or remove them.")
    return array


def unify_types(first: pa.Array, second: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Both as they are where both are numbers, else both as text."""
    if first.type == second.type:
        return first, second
    return first.cast(pa.large_string()), second.cast(pa.large_string())


def find_positions(wanted: pa.Array, given: pa.Array) -> IntArray:
    """For each wanted id its place among the given ones, -1 where it is not there."""
    found: NDArray[Any] = pc.fill_null(pc.index_in(wanted, value_set=given), -1).to_numpy(zero_copy_only=False)
    return found.astype(np.int64)


def require_positions(given: Ids, ids: Ids, path: str | Path, of: str) -> IntArray:
    """For each id in a file its place among the ids we know; one that is not there is an error."""
    there, here = unify_types(normalize_ids(given, path), normalize_ids(ids, f"the {of}s"))
    found = find_positions(there, here)
    missing = there.filter(pa.array(found < 0)).unique()
    if len(missing):
        raise DataError(
            f"{path} names {len(missing)} unknown {of}{'s' * (len(missing) != 1)}, for instance '{missing[0]}' "
            f"(the first known one is '{here[0]}'). Remove these rows, or add the {of}s to the embeddings."
        )
    return found


def refuse_duplicates(ids: pa.Array, path: str | Path, of: str) -> None:
    """An error where an id occurs more than once."""
    counts = ids.value_counts()
    twice = counts.filter(pc.greater(counts.field("counts"), 1))
    if len(twice):
        raise DataError(
            f"{path} has {len(twice)} {of}{'s' * (len(twice) != 1)} more than once, for instance "
            f"'{twice.field('values')[0]}'. Keep one row for each."
        )


def as_numpy(ids: Ids) -> NDArray[Any]:
    """The ids as an array of NumPy."""
    return ids if isinstance(ids, np.ndarray) else np.asarray(ids)
