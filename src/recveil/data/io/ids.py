"""Ids from different files: normalized, matched, and refused if one is missing or occurs twice."""

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
    "as_numpy",
    "find_positions",
    "match_users",
    "normalize_ids",
    "refuse_duplicates",
    "require_positions",
    "unify_types",
]

Ids: TypeAlias = pa.Array | pa.ChunkedArray | NDArray[Any]  # type: ignore[misc, valid-type, unused-ignore]


def normalize_ids(ids: Ids, source: str | Path) -> pa.Array:
    """Convert ids to 64-bit whole numbers or text.

    Raises:
        DataError: an id is missing, or is neither a whole number nor text.
    """
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
            f"Some ids in {source} are neither whole numbers nor text. Write every id as a whole number or as text."
        ) from None
    empty = 0 if whole else pc.sum(pc.equal(array, ""), min_count=0).as_py()
    missing = array.null_count + empty
    if missing:
        raise DataError(f"{missing} rows of {source} have no id. Fill them in or remove them.")
    return array


def unify_types(first: pa.Array, second: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return both arrays unchanged if they have one type, else both as text."""
    if first.type == second.type:
        return first, second
    return first.cast(pa.large_string()), second.cast(pa.large_string())


def find_positions(ids: pa.Array, known_ids: pa.Array) -> IntArray:
    """Find the position of each id among the known ids; -1 if it is unknown."""
    index: NDArray[Any] = pc.fill_null(pc.index_in(ids, value_set=known_ids), -1).to_numpy(zero_copy_only=False)
    return index.astype(np.int64)


def require_positions(ids: Ids, known_ids: Ids, path: str | Path, owner: str) -> IntArray:
    """Find the position of each id of a file among the known ids.

    Args:
        ids: the ids in the file.
        known_ids: the ids to look among.
        path: the file, for errors.
        owner: what the ids name, "user" or "item".

    Raises:
        DataError: an id is not among the known ones.
    """
    ours, theirs = unify_types(normalize_ids(ids, path), normalize_ids(known_ids, f"the {owner}s"))
    index = find_positions(ours, theirs)
    missing = ours.filter(pa.array(index < 0)).unique()
    if len(missing):
        raise DataError(
            f"{path} names {len(missing)} unknown {owner}{'s' * (len(missing) != 1)}, for instance '{missing[0]}' "
            f"(the first known one is '{theirs[0]}'). Remove these rows, or add the {owner}s to the release."
        )
    return index


def match_users(ids: Ids, earlier_ids: Ids, path: str | Path) -> IntArray:
    """Find the row of each user in an earlier table; -1 for users who are not in it.

    Args:
        ids: the users of today.
        earlier_ids: the users of the earlier table.
        path: file of the earlier table, for errors.

    Raises:
        DataError: no user is in both tables.
    """
    rows = find_positions(*unify_types(normalize_ids(ids, "the table"), normalize_ids(earlier_ids, path)))
    if not (rows >= 0).any():
        raise DataError(f"No user is both in {path} and in the new table. Give earlier tables of the same users.")
    return rows


def refuse_duplicates(ids: pa.Array, path: str | Path, owner: str) -> None:
    """Raise an error if an id occurs more than once.

    Args:
        ids: the ids in the file.
        path: the file, for errors.
        owner: what the ids name, "user" or "item".
    """
    counts = ids.value_counts()
    repeated = counts.filter(pc.greater(counts.field("counts"), 1))
    if len(repeated):
        raise DataError(
            f"{path} has {len(repeated)} {owner}{'s' * (len(repeated) != 1)} more than once, for instance "
            f"'{repeated.field('values')[0]}'. Keep one row for each."
        )


def as_numpy(ids: Ids) -> NDArray[Any]:
    """Convert the ids to a NumPy array."""
    return ids if isinstance(ids, np.ndarray) else np.asarray(ids)
