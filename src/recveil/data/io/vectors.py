"""Tables of vectors in files of any format, checked when they are read. Nothing is unpickled.

Tables hold the vectors in columns (`user_id` with `embedding`, or with `emb_0, emb_1, ...`, or as named); other files
hold them as an array, with the ids in a second array or in a second file.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from recveil.core.errors import DataError, UsageError
from recveil.core.types import FloatArray
from recveil.data.io.array_files import choose_id_array, choose_vector_array, convert_id_array
from recveil.data.io.formats.format_types import ArrayFormat, TableFormat
from recveil.data.io.formats.npy import load_npy
from recveil.data.io.formats.registry import find_format, get_ending, is_typed_table
from recveil.data.io.ids import normalize_ids, refuse_duplicates
from recveil.data.io.tables import ITEM_NAMES, USER_NAMES, narrow_table, read_table, require_column
from recveil.data.io.text import check_file, describe_read_error, narrow_column
from recveil.data.io.vector_columns import find_vector_columns, is_list, parse_floats, parse_matrix, require_names

__all__ = [
    "ROW_NUMBER",
    "Layout",
    "Vectors",
    "holds_ids",
    "parse_floats",
    "parse_vectors",
    "read_embeddings",
    "read_ids",
    "read_rows",
    "refuse_missing_ids",
    "replace_vectors",
]

ROW_NUMBER: Final = "row-number"
"""Stands in place of a file of ids where the ids are the row numbers."""


@dataclass(frozen=True)
class Layout:
    """Names under which a file holds vectors and ids; what is empty is found by the usual names.

    Attributes:
        vectors: columns of the vectors, or the array; `*` stands for any letters.
        key: column or array of the ids.
    """

    vectors: tuple[str, ...] = ()
    key: str = ""


@dataclass(frozen=True, eq=False)
class Vectors:
    """A table of vectors with its ids and its form.

    The form allows the table to be written back as it was read.

    Attributes:
        ids: ids of the rows.
        x: the vectors.
        key: name of the column or array of ids.
        columns: names of the columns or of the array that hold the vectors.
        source: the whole table; None for a file of arrays.
        dtype: type of the numbers in the file.
        owner: whose vectors they are, "user" or "item".
        text: the other columns of a text file as they are written there; None for other files.
        path: the file; None if the vectors come from elsewhere.
        arrays: names of all arrays of a file of arrays.
        dropped: names of arrays that are not written back.
    """

    ids: pa.Array
    x: NDArray[np.float32]
    key: str
    columns: tuple[str, ...]
    source: pa.Table | None
    dtype: type[np.floating[Any]]
    owner: str = "user"
    text: pa.Table | None = None
    path: Path | None = None
    arrays: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()

    @property
    def holds_ids(self) -> bool:
        """Whether the file itself holds the ids."""
        return self.key in (self.arrays if self.source is None else self.source.column_names)

    @property
    def other_names(self) -> list[str]:
        """Names of columns and arrays that hold neither ids nor vectors."""
        names = self.arrays if self.source is None else self.source.column_names
        return [name for name in names if name != self.key and name not in (*self.columns, *self.dropped)]

    def drop_names(self, names: Collection[str]) -> Vectors:
        """Return the vectors without these other columns or arrays."""
        if self.source is None:
            return replace(self, dropped=(*self.dropped, *names))
        return replace(self, source=self.source.drop_columns(list(names)))


def read_embeddings(
    path: str | Path,
    ids: str | Path | None = None,
    *,
    owner: Literal["user", "item"] = "user",
    layout: Layout | None = None,
) -> Vectors:
    """Read the vectors of users or items with their ids.

    Args:
        path: the file of vectors.
        ids: file with the ids of the rows (.npy, .txt with one on each line, .csv, .parquet), for a file of arrays that
            has none; "row-number" if the ids are 0, 1, 2, ...
        owner: whose vectors they are.
        layout: names of the columns or arrays; the usual ones if None.

    Raises:
        DataError: the file cannot be read, an id is missing or repeats, or a number is not finite.
        UsageError: both files hold ids, or neither does.
    """
    path, layout = check_file(path), layout or Layout()
    file_format = find_format(path)
    if isinstance(file_format, ArrayFormat):
        vectors = _read_array_vectors(path, file_format, owner, layout)
    else:
        vectors = _read_table_vectors(path, file_format, owner, layout)
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


def holds_ids(path: str | Path, owner: str = "user", layout: Layout | None = None) -> bool:
    """Tell whether a file of vectors holds the ids of its rows; only files of arrays may have none."""
    path, layout = check_file(path), layout or Layout()
    file_format = find_format(path)
    if not isinstance(file_format, ArrayFormat):
        return True
    shapes = file_format.list_arrays(path)
    name = choose_vector_array(shapes, owner, path, "".join(layout.vectors[:1]))
    n_rows = shapes[name][0] if shapes[name] else 0
    return choose_id_array(shapes, n_rows, owner, path, layout.key) is not None


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


def _read_table_vectors(path: Path, file_format: TableFormat, owner: str, layout: Layout) -> Vectors:
    table = read_rows(path, narrow=False)
    layout = replace(layout, key=layout.key or file_format.id_column)
    if not file_format.is_text:
        return replace(parse_vectors(table, path, owner, layout), path=path)
    vectors = parse_vectors(narrow_table(table), path, owner, layout)
    return replace(vectors, text=table.drop_columns(list(vectors.columns)), path=path)


def parse_vectors(table: pa.Table, path: Path, owner: str = "user", layout: Layout | None = None) -> Vectors:
    """Parse the vectors in a table; ids and numbers are not checked yet.

    Args:
        table: the table.
        path: file of the table, for errors.
        owner: whose vectors they are, "user" or "item".
        layout: names of the columns; the usual ones if None.
    """
    layout = layout or Layout()
    if layout.key:
        [key] = require_names(table.column_names, path, [layout.key])
    else:
        key = require_column(table, USER_NAMES if owner == "user" else ITEM_NAMES, path)
    columns = find_vector_columns(table.schema, path, layout.vectors)
    if key in columns:
        raise DataError(f"The column '{key}' of {path} holds the ids, and was named as a vector. Leave it out.")
    x = parse_matrix(table, key, columns, path)
    kinds = {getattr(kind, "value_type", kind) for kind in (table.schema.field(name).type for name in columns)}
    dtype: type[np.floating[Any]] = np.float32
    if is_typed_table(path) and kinds & {pa.float64(), pa.float16()}:
        dtype = np.float16 if kinds == {pa.float16()} else np.float64 if pa.float64() in kinds else np.float32
    return Vectors(_combine_chunks(table.column(key)), _convert_to_float32(x), key, columns, table, dtype, owner)


def _read_array_vectors(path: Path, file_format: ArrayFormat, owner: str, layout: Layout) -> Vectors:
    if len(layout.vectors) > 1:
        raise UsageError(f"{path} holds arrays, and `vectors` names {len(layout.vectors)}. Name one of them.")
    shapes = file_format.list_arrays(path)
    name = choose_vector_array(shapes, owner, path, "".join(layout.vectors))
    array = file_format.load_array(path, name)
    if not (np.issubdtype(array.dtype, np.floating) or np.issubdtype(array.dtype, np.integer)):
        raise DataError(f"{path} holds {array.dtype}, not numbers. Write the vectors as 32-bit floats.")
    if array.ndim != 2 or array.size == 0:
        shape = " x ".join(map(str, array.shape)) or "a single number"
        raise DataError(f"{path} holds no table of vectors (its shape is {shape}). Give one row for each {owner}.")
    dtype = array.dtype.type if np.issubdtype(array.dtype, np.floating) else np.float32
    key = choose_id_array(shapes, len(array), owner, path, layout.key)
    ids = pa.array(np.arange(len(array))) if key is None else convert_id_array(file_format.load_array(path, key), path)
    x, key = _convert_to_float32(array), key or f"{owner}_id"
    return Vectors(ids, x, key, (name,), None, dtype, owner, path=path, arrays=tuple(shapes))


def read_ids(path: Path, owner: str) -> pa.Array:
    """Read a file of ids, one for each row of a table of vectors."""
    path = check_file(path)
    ending = get_ending(path)
    if ending == ".npy":
        return convert_id_array(load_npy(path), path)
    if ending == ".txt":
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
    table = vectors.source
    if table is None:
        table = pa.table({f"{vectors.owner}_id": vectors.ids})
        return table.append_column("embedding", _make_lists(x))
    kind = table.schema.field(vectors.columns[0]).type
    if len(vectors.columns) > 1 or pa.types.is_floating(kind) or pa.types.is_integer(kind):
        new = {name: pa.array(x[:, j]) for j, name in enumerate(vectors.columns)}
    else:
        lists = _make_lists(x)
        if is_list(kind) and not pa.types.is_fixed_size_list(kind):
            make = pa.list_ if pa.types.is_list(kind) else pa.large_list
            lists = lists.cast(make(lists.type.value_type))
        new = {vectors.columns[0]: lists}
    for name, array in new.items():
        table = table.set_column(table.schema.get_field_index(name), name, array)
    return table


def _make_lists(x: FloatArray) -> pa.Array:
    return pa.FixedSizeListArray.from_arrays(pa.array(x.ravel()), x.shape[1])
