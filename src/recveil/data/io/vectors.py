"""Tables of vectors in files, checked when they are read.

Vectors come as Parquet or CSV (`user_id` with `embedding`, or with `emb_0, emb_1, ...`), as `.npy` with the ids in a
second file, or as safetensors. Nothing is unpickled.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet
import torch
from numpy.typing import NDArray

from recveil.core.errors import DataError, UsageError
from recveil.core.types import FloatArray
from recveil.data.io.array_files import convert_id_array, convert_tensor, find_id_tensor, load_npy, load_tensors
from recveil.data.io.ids import normalize_ids, refuse_duplicates
from recveil.data.io.tables import ITEM_NAMES, USER_NAMES, narrow_table, read_table, require_column
from recveil.data.io.text import check_file, describe_read_error, narrow_column

__all__ = [
    "PARQUET_SUFFIXES",
    "ROW_NUMBER",
    "Vectors",
    "find_numbered_columns",
    "holds_ids",
    "parse_floats",
    "parse_vectors",
    "read_embeddings",
    "read_ids",
    "read_rows",
    "refuse_missing_ids",
    "replace_vectors",
]

PARQUET_SUFFIXES = (".parquet", ".pq")
TEXT_DELIMITERS = {".csv": ",", ".tsv": "\t"}
ROW_NUMBER: Final = "row-number"
"""Stands in place of a file of ids where the ids are the row numbers."""

MAX_NAME_LETTERS = 20
"""Letters of the name of a vector column; a longer number counts no columns."""
_NUMBERED_NAME = re.compile(r"emb_(\d+)")
_CANONICAL_NAME = re.compile(r"emb_(0|[1-9][0-9]*)")


@dataclass(frozen=True, eq=False)
class Vectors:
    """A table of vectors with its ids and its form.

    The form allows the table to be written back as it was read.

    Attributes:
        ids: ids of the rows.
        x: the vectors.
        key: name of the column or tensor of ids.
        columns: names of the columns or of the tensor that hold the vectors.
        source: the whole table, all tensors of a safetensors file, or None (`.npy`).
        dtype: type of the numbers in the file.
        owner: whose vectors they are, "user" or "item".
        text: the other columns of a text file as they are written there; None for other files.
    """

    ids: pa.Array
    x: NDArray[np.float32]
    key: str
    columns: tuple[str, ...]
    source: pa.Table | Mapping[str, torch.Tensor] | None
    dtype: type[np.floating[Any]]
    owner: str = "user"
    text: pa.Table | None = None

    @property
    def holds_ids(self) -> bool:
        """Whether the file itself holds the ids."""
        return self.source is not None and self.key in (
            self.source.column_names if isinstance(self.source, pa.Table) else self.source
        )


def read_embeddings(
    path: str | Path, ids: str | Path | None = None, *, owner: Literal["user", "item"] = "user"
) -> Vectors:
    """Read the vectors of users or items with their ids.

    Args:
        path: the file of vectors.
        ids: file with the ids of the rows (.npy, .txt with one on each line, .csv, .parquet), for a .npy or safetensors
            file that has none; "row-number" if the ids are 0, 1, 2, ...
        owner: whose vectors they are.

    Raises:
        DataError: the file cannot be read, an id is missing or repeats, or a number is not finite.
        UsageError: both files hold ids, or neither does.
    """
    path = check_file(path)
    readers = {".npy": _read_npy_vectors, ".safetensors": _read_safetensors_vectors}
    vectors = readers.get(path.suffix.lower(), _read_table_vectors)(path, owner)
    if ids is not None and vectors.holds_ids:
        raise UsageError(f"{path} has ids of its own in '{vectors.key}'. Leave out the ids in {ids}.")
    if ids is None and not vectors.holds_ids:
        raise refuse_missing_ids(path, owner)
    if ids is not None and ids != ROW_NUMBER:
        vectors = replace(vectors, ids=read_ids(Path(ids), owner))
    n = len(vectors.x)
    if len(vectors.ids) != n:
        raise DataError(
            f"{ids or path} has {len(vectors.ids)} ids and {path} has {n} vectors. Give one id for each row, in the "
            f"same order (a .csv of ids starts with a header line)."
        )
    refuse_duplicates(normalize_ids(vectors.ids, path), path, owner)
    bad = np.flatnonzero(~np.isfinite(vectors.x).all(axis=1))
    if len(bad):
        raise DataError(
            f"{len(bad)} of the {n} vectors in {path} hold NaN, infinite or missing numbers, the first that of {owner} "
            f"'{vectors.ids[int(bad[0])]}'. Remove or correct these rows."
        )
    return vectors


def holds_ids(path: str | Path, owner: str = "user") -> bool:
    """Tell whether a file of vectors holds the ids of its rows; only arrays and tensors may have none."""
    path = check_file(path)
    if path.suffix.lower() != ".safetensors":
        return path.suffix.lower() != ".npy"
    return _read_safetensors_vectors(path, owner).holds_ids


def refuse_missing_ids(path: Path, owner: str = "user") -> UsageError:
    """Return the error for a file of vectors without ids.

    Rows are never matched to ids by their number unless that is said: the order of the rows may be another one.
    """
    if owner == "item":
        return UsageError(
            f"{path} holds no ids of its items. Write a .parquet file with the columns item_id, embedding."
        )
    return UsageError(
        f"{path} holds no user ids, so its rows cannot be matched. Name a file with the id of each row by `ids`, or "
        f"give `ids` {ROW_NUMBER} if the ids are the row numbers 0, 1, 2, ..."
    )


def read_rows(path: str | Path, *, narrow: bool = True) -> pa.Table:
    """Read a table that must have rows; numbers in a text file stay text unless `narrow`."""
    table = read_table(path, narrow=narrow)
    if table.num_rows == 0:
        raise DataError(f"{path} has no rows below its header. Check that it was written whole.")
    return table


def _read_table_vectors(path: Path, owner: str) -> Vectors:
    table = read_rows(path, narrow=False)
    if path.suffix.lower() in PARQUET_SUFFIXES:
        return parse_vectors(table, path, owner)
    vectors = parse_vectors(narrow_table(table), path, owner)
    return replace(vectors, text=table.drop_columns(list(vectors.columns)))


def parse_vectors(table: pa.Table, path: Path, owner: str = "user") -> Vectors:
    """Parse the vectors in a table; ids and numbers are not checked yet.

    Args:
        table: the table.
        path: file of the table, for errors.
        owner: whose vectors they are, "user" or "item".
    """
    key = require_column(table, USER_NAMES if owner == "user" else ITEM_NAMES, path)
    if "embedding" in table.column_names:
        x = _parse_lists(table, key, path)
        columns: tuple[str, ...] = ("embedding",)
    else:
        columns = find_numbered_columns(table.column_names, path)
        x = np.stack([parse_floats(table.column(name), name, path) for name in columns], axis=1)
    kinds = {getattr(kind, "value_type", kind) for kind in (table.schema.field(name).type for name in columns)}
    wide = path.suffix.lower() in PARQUET_SUFFIXES and pa.float64() in kinds
    return Vectors(
        _combine_chunks(table.column(key)),
        _convert_to_float32(x),
        key,
        columns,
        table,
        np.float64 if wide else np.float32,
        owner,
    )


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
        raise DataError(f"{path} has no column 'embedding' and no columns emb_0, emb_1, ...; it has {existing}.")
    if numbers != list(range(len(numbers))):
        gap = next(number for number in range(len(numbers) + 1) if number not in numbers)
        raise DataError(
            f"{path} has columns up to emb_{numbers[-1]} but no emb_{gap}. Number them from 0 without gaps."
        )
    return tuple(f"emb_{number}" for number in numbers)


def _parse_lists(table: pa.Table, key: str, path: Path) -> FloatArray:
    lists = table.column("embedding")
    if pa.types.is_string(lists.type) or pa.types.is_large_string(lists.type):
        # CSV holds lists as text: "[0.1, 0.2]" or "0.1 0.2".
        lists = pc.split_pattern_regex(pc.utf8_trim(lists, " []()"), r"[,;\s]+")
    kind = lists.type
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)):
        raise DataError(
            f"The column 'embedding' of {path} holds {kind}, not lists of numbers. Write lists, or emb_0, ..."
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
    blocks = [parse_floats(chunk.flatten(), "embedding", path) for chunk in lists.chunks]
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


def _read_npy_vectors(path: Path, owner: str) -> Vectors:
    return _wrap_array(load_npy(path), path, owner)


def _wrap_array(array: NDArray[Any], path: Path, owner: str) -> Vectors:
    if not (np.issubdtype(array.dtype, np.floating) or np.issubdtype(array.dtype, np.integer)):
        raise DataError(f"{path} holds {array.dtype}, not numbers. Write the vectors as 32-bit floats.")
    if array.ndim != 2 or array.size == 0:
        shape = " x ".join(map(str, array.shape)) or "a single number"
        raise DataError(f"{path} holds no table of vectors (its shape is {shape}). Give one row for each {owner}.")
    dtype = np.float64 if array.dtype == np.float64 else np.float32
    return Vectors(
        pa.array(np.arange(len(array))), _convert_to_float32(array), f"{owner}_id", ("embedding",), None, dtype, owner
    )


def _read_safetensors_vectors(path: Path, owner: str) -> Vectors:
    tensors = load_tensors(path)
    tables = [name for name, tensor in tensors.items() if tensor.ndim == 2]
    name = "embedding" if "embedding" in tensors else tables[0] if len(tables) == 1 else None
    if name is None:
        raise DataError(
            f"{path} holds {len(tables)} tables among its tensors ({', '.join(sorted(tensors)) or 'none'}). Keep one, "
            f"or name the one that is meant 'embedding'."
        )
    vectors = _wrap_array(convert_tensor(tensors[name], name, path), path, owner)
    vectors = replace(vectors, columns=(name,), source=tensors)
    key = find_id_tensor(tensors, len(vectors.x), owner, path)
    return vectors if key is None else replace(vectors, ids=convert_id_array(tensors[key], path), key=key)


def read_ids(path: Path, owner: str) -> pa.Array:
    """Read a file of ids, one for each row of a table of vectors."""
    path = check_file(path)
    suffix = path.suffix.lower()
    if suffix == ".npy":
        return convert_id_array(load_npy(path), path)
    if suffix == ".txt":
        try:
            lines = path.read_text(encoding="utf8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise describe_read_error(path, error) from error
        return narrow_column(pa.array(lines, pa.string()))
    table = read_rows(path)
    key = (
        table.column_names[0]
        if table.num_columns == 1
        else require_column(table, USER_NAMES if owner == "user" else ITEM_NAMES, path)
    )
    return _combine_chunks(table.column(key))


def _combine_chunks(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)


def _convert_to_float32(x: NDArray[Any]) -> NDArray[np.float32]:
    # A number too large for 32 bits becomes infinite and is refused with the others that are not finite.
    with np.errstate(over="ignore"):
        return x.astype(np.float32)


def replace_vectors(vectors: Vectors, x: FloatArray) -> pa.Table:
    """Put `x` in the place of the vectors in their table, or in a new one."""
    table = vectors.source if isinstance(vectors.source, pa.Table) else pa.table({f"{vectors.owner}_id": vectors.ids})
    # A safetensors file may call its whole table emb_0.
    if table is vectors.source and vectors.columns[0] == "emb_0":
        new = {name: pa.array(x[:, j]) for j, name in enumerate(vectors.columns)}
    else:
        lists = pa.FixedSizeListArray.from_arrays(pa.array(x.ravel()), x.shape[1])
        new = {"embedding": lists}
        kind = table.schema.field("embedding").type if "embedding" in table.column_names else lists.type
        if pa.types.is_list(kind) or pa.types.is_large_list(kind):
            make = pa.list_ if pa.types.is_list(kind) else pa.large_list
            new = {"embedding": lists.cast(make(lists.type.value_type))}
    for name, array in new.items():
        place = table.schema.get_field_index(name)
        table = table.append_column(name, array) if place < 0 else table.set_column(place, name, array)
    return table
