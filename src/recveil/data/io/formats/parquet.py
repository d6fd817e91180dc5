"""Parquet files, read and written whole."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet

from recveil.core.errors import DataError
from recveil.data.io.formats.format_types import TableFormat

__all__ = ["FORMAT", "read_parquet"]

_VIEW_TYPES = {"string_view": pa.large_string(), "binary_view": pa.large_binary()}


def read_parquet(path: Path) -> pa.Table:
    """Read a Parquet file; views of text become text, from which rows can be taken.

    Raises:
        DataError: the file is damaged, or holds a type that Arrow cannot read.
    """
    try:
        table = pyarrow.parquet.read_table(path, partitioning=None)
        for place, (name, field) in enumerate(zip(table.column_names, table.schema, strict=True)):
            if str(field.type) in _VIEW_TYPES:
                table = table.set_column(place, name, table.column(place).cast(_VIEW_TYPES[str(field.type)]))
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:  # the last one: names of columns
        raise DataError(f"{path} is not a whole Parquet file. Download or write it again.") from error
    return table


def _write_parquet(path: Path, table: pa.Table, original: Path | None) -> None:
    pyarrow.parquet.write_table(table, path)


FORMAT = TableFormat("Parquet", (".parquet", ".pq"), read_parquet, _write_parquet, keeps_types=True)
