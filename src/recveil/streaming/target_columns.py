"""Columns of attributes, in a large table or in another file: their types, and values that Arrow can count.

Arrow neither groups nor looks up some types, such as views and 16-bit floats, so these are converted first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from recveil.core.errors import DataError, unknown_name
from recveil.data.io.formats.registry import PARQUET_ENDINGS
from recveil.data.io.tables import USER_NAMES, require_column
from recveil.data.io.user_tables import MIN_SHARED_USERS
from recveil.data.io.vectors import read_rows
from recveil.streaming.parquet_parts import list_part_files, open_parquet, read_batches

__all__ = [
    "check_target_column",
    "convert_views",
    "describe_overlap",
    "find_id_column",
    "list_target_columns",
    "read_columns",
    "simplify_values",
]


def check_target_column(schema: pa.Schema, name: str, path: Path) -> None:
    """Refuse a column that occurs twice, or that holds more than one value for each user.

    Args:
        schema: schema of the table.
        name: the column.
        path: file or folder of the table, for errors.
    """
    if schema.names.count(name) > 1:
        raise DataError(f"{path} has more than one column '{name}'. Rename or remove all but one.")
    kind = _get_storage_type(schema.field(name).type)
    if pa.types.is_nested(kind):
        raise DataError(
            f"The column '{name}' of {path} holds {kind}, not one class for each user. Choose another target."
        )


def simplify_values(values: pa.Array | pa.ChunkedArray, name: str) -> Any:
    """Return the values of a target in a type that Arrow can group and look up.

    Args:
        values: the column.
        name: its name, for errors.

    Raises:
        DataError: the values are bytes that are no text.
    """
    kind = values.type
    if isinstance(kind, pa.BaseExtensionType):
        return simplify_values(_get_storage(values), name)
    if pa.types.is_dictionary(kind):
        return simplify_values(values.cast(kind.value_type), name)
    if kind == pa.float16():
        return values.cast(pa.float32())
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return _decode_bytes(values, name)
    if _is_view(kind):
        return _decode_bytes(values, name)
    return values


def convert_views(values: pa.Array | pa.ChunkedArray) -> Any:
    """Return views of text or bytes as plain arrays, from which rows can be taken; other values as they are."""
    if not _is_view(values.type):
        return values
    return values.cast(pa.large_string() if str(values.type) == "string_view" else pa.large_binary())


def find_id_column(path: Path, names: Sequence[str]) -> tuple[str, pa.DataType]:
    """Find the name and type of the id column; the named columns must exist and hold classes."""
    schemas = {file: _read_schema(file) for file in (list_part_files(path) if _is_parquet(path) else [path])}
    first, schema = next(iter(schemas.items()))
    key = require_column(schema.empty_table(), USER_NAMES, path)
    for name in names:
        if name not in schema.names:
            raise unknown_name(f"attribute in {path}", name, [other for other in schema.names if other != key])
        check_target_column(schema, name, path)
    for file, other in schemas.items():
        for name in (key, *names):
            if other.names.count(name) != 1 or other.field(name).type != schema.field(name).type:
                raise DataError(
                    f"{file} has no column '{name}' like that of {first.name}, or more than one. Give all files of "
                    "attributes the same columns."
                )
    kind = schema.field(key).type
    return key, kind.value_type if pa.types.is_dictionary(kind) else kind


def read_columns(path: Path, columns: list[str]) -> Iterator[pa.RecordBatch | pa.Table]:
    """Read these columns of a file or folder of attributes, piece by piece."""
    if not _is_parquet(path):
        yield read_rows(path).select(columns)
        return
    for file in list_part_files(path):
        with open_parquet(file) as opened:
            groups = range(opened.num_row_groups)
        yield from read_batches(file, groups, columns, 1 << 20)


def list_target_columns(columns: Iterable[str], targets: Iterable[str]) -> tuple[str, ...]:
    """List the columns that are called like a target; case does not matter."""
    simple = {name.casefold() for name in targets}
    return tuple(column for column in columns if column.casefold() in simple)


def describe_overlap(matched: int, n_users: int, n_rows: int, path: Path) -> list[str]:
    """Describe how many ids are in only one of two tables; refuse tables that have less than half in common.

    Args:
        matched: ids in both tables.
        n_users: users of the large table.
        n_rows: users in the file of attributes.
        path: the file of attributes.

    Raises:
        DataError: less than half of the ids of the smaller table are in the other one.
    """
    if matched < max(1, MIN_SHARED_USERS * min(n_users, n_rows)):
        raise DataError(
            f"Only {matched:,} users are in both tables, of {n_users:,} in the large one and {n_rows:,} in {path}. "
            "Write the ids alike in both, or leave out the users of other tables."
        )
    notes = []
    if matched < n_users:
        notes.append(f"{n_users - matched:,} of the {n_users:,} users have no row in {path.name} and are undisclosed.")
    if matched < n_rows:
        notes.append(f"{n_rows - matched:,} of the {n_rows:,} users in {path.name} are not in the table.")
    return notes


def _is_parquet(path: Path) -> bool:
    return path.is_dir() or path.suffix.lower() in PARQUET_ENDINGS


def _read_schema(path: Path) -> pa.Schema:
    if not _is_parquet(path):
        return read_rows(path).schema
    with open_parquet(path) as file:
        return file.schema_arrow


def _is_view(kind: pa.DataType) -> bool:
    return str(kind) in ("string_view", "binary_view")  # old versions of Arrow have no test for these


def _get_storage_type(kind: pa.DataType) -> pa.DataType:
    while isinstance(kind, pa.BaseExtensionType) or pa.types.is_dictionary(kind):
        kind = kind.value_type if pa.types.is_dictionary(kind) else kind.storage_type
    return kind


def _get_storage(values: pa.Array | pa.ChunkedArray) -> Any:
    if isinstance(values, pa.ChunkedArray):
        return pa.chunked_array([chunk.storage for chunk in values.chunks], values.type.storage_type)
    return values.storage


def _decode_bytes(values: pa.Array | pa.ChunkedArray, name: str) -> Any:
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:
        raise DataError(f"The column '{name}' holds bytes that are no text. Choose another target.") from None
