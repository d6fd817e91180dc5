"""Columns of a table that hold vectors: one column of lists, or several columns of numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recveil.core.errors import DataError
from recveil.core.types import FloatArray

__all__ = ["find_numbered_columns", "find_vector_columns", "is_list", "parse_floats", "parse_matrix", "require_names"]

MAX_NAME_LETTERS = 20
"""Letters of the name of a vector column; a longer number counts no columns."""
_NUMBERED_NAME = re.compile(r"emb_(\d+)")
_CANONICAL_NAME = re.compile(r"emb_(0|[1-9][0-9]*)")


def find_vector_columns(schema: pa.Schema, path: Path, named: Sequence[str] = ()) -> tuple[str, ...]:
    """Find the columns of the vectors: as named, `embedding`, emb_0, emb_1, ..., or the only lists of fractions.

    Args:
        schema: schema of the table.
        path: file of the table, for errors.
        named: names that were given; `*` stands for any letters.

    Raises:
        DataError: a named column does not exist, or none can be found.
    """
    if named:
        return require_names(schema.names, path, named)
    if "embedding" in schema.names:
        return ("embedding",)
    lists = [field.name for field in schema if is_list(field.type) and pa.types.is_floating(field.type.value_type)]
    if len(lists) == 1 and not any(_NUMBERED_NAME.fullmatch(name) for name in schema.names):
        return (lists[0],)
    return find_numbered_columns(schema.names, path)


def require_names(names: Sequence[str], path: Path, named: Sequence[str]) -> tuple[str, ...]:
    """Return the named columns in their order, with `*` expanded in the order of the table.

    Raises:
        DataError: a name fits no column.
    """
    chosen: dict[str, None] = {}
    for name in named:
        fitting = [name] if name in names else [other for other in names if "*" in name and fnmatchcase(other, name)]
        if not fitting:
            raise DataError(f"{path} has no column '{name}'. Its columns are {', '.join(map(repr, names[:12]))}.")
        chosen |= dict.fromkeys(fitting)
    return tuple(chosen)


def find_numbered_columns(names: list[str], path: Path) -> tuple[str, ...]:
    """Find the columns emb_0, emb_1, ..., which must be numbered without gaps."""
    numbered = [name for name in names if _NUMBERED_NAME.fullmatch(name)]
    unclear = [name for name in numbered if not _CANONICAL_NAME.fullmatch(name)]
    if unclear:
        raise DataError(
            f"{path} has a column '{unclear[0]}'. Number the columns emb_0, emb_1, ... without zeros before."
        )
    numbers = sorted(int(name.removeprefix("emb_")) for name in numbered if len(name) <= MAX_NAME_LETTERS)
    if not numbers:
        existing = ", ".join(names[:12])
        raise DataError(
            f"{path} has no column 'embedding' and no columns emb_0, emb_1, ...; it has {existing}. Name the columns "
            "of the vectors by `vectors`."
        )
    if numbers != list(range(len(numbers))):
        gap = next(number for number in range(len(numbers) + 1) if number not in numbers)
        raise DataError(
            f"{path} has columns up to emb_{numbers[-1]} but no emb_{gap}. Number them from 0 without gaps."
        )
    return tuple(f"emb_{number}" for number in numbers)


def is_list(kind: pa.DataType) -> bool:
    """Tell whether a type is a list of any kind."""
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def parse_matrix(table: pa.Table, key: str, columns: Sequence[str], path: Path) -> FloatArray:
    """Parse the vectors, one row for each row of the table.

    Args:
        table: the table.
        key: column of the ids, for errors.
        columns: columns of the vectors.
        path: file of the table, for errors.

    Raises:
        DataError: the vectors differ in length, or hold something other than numbers.
    """
    kind = table.schema.field(columns[0]).type
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    if len(columns) == 1 and (columns[0] == "embedding" or is_list(kind) or is_text):
        return _parse_lists(table, key, columns[0], path)
    return np.stack([parse_floats(table.column(name), name, path) for name in columns], axis=1)


def _parse_lists(table: pa.Table, key: str, name: str, path: Path) -> FloatArray:
    lists = table.column(name)
    if pa.types.is_string(lists.type) or pa.types.is_large_string(lists.type):
        # CSV holds lists as text: "[0.1, 0.2]" or "0.1 0.2".
        lists = pc.split_pattern_regex(pc.utf8_trim(lists, " []()"), r"[,;\s]+")
    if not is_list(lists.type):
        raise DataError(
            f"The column '{name}' of {path} holds {lists.type}, not lists of numbers. Write lists, or emb_0, ..."
        )
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy()
    d = int(lengths[0])
    uneven = np.flatnonzero(lengths != d)
    if len(uneven) or d == 0:
        row = int(uneven[0]) if len(uneven) else 0
        raise DataError(
            f"The vectors in {path} differ in length: that of '{table.column(key)[0]}' has {d} numbers, that of "
            f"'{table.column(key)[row]}' has {lengths[row]}. Give every row the same number, at least one."
        )
    blocks = [parse_floats(chunk.flatten(), name, path) for chunk in lists.chunks]
    return np.concatenate(blocks).reshape(-1, d)


def parse_floats(values: pa.Array | pa.ChunkedArray, name: str, path: str | Path) -> FloatArray:
    """Parse a column as numbers; a missing one is NaN.

    Args:
        values: the column.
        name: its name, for errors.
        path: file of the table, for errors.

    Raises:
        DataError: an entry is not a number.
    """
    if pa.types.is_boolean(values.type):
        raise DataError(f"The column '{name}' of {path} holds true and false, not numbers. Correct or remove it.")
    try:
        # Floats keep their width: a conversion would double the memory of a large table.
        floats = values if pa.types.is_floating(values.type) else values.cast(pa.float64())
        numbers: FloatArray = floats.to_numpy(zero_copy_only=False)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise DataError(
            f"The column '{name}' of {path} does not hold numbers ({error}). Correct or remove it."
        ) from None
    return numbers
