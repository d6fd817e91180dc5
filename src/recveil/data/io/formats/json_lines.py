"""JSON lines: one object on each line, with the vector as an array or as several numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.json

from recveil.core.errors import DataError
from recveil.data.io.formats.format_types import TableFormat
from recveil.data.io.text import describe_read_error, open_for_writing, open_unpacked

__all__ = ["FORMAT", "read_json_lines"]

BLOCK_BYTES = 64 << 20
"""Bytes that Arrow parses at once; no line may be longer."""
BLOCK_ROWS = 8_192
"""Rows that are formatted at once."""


def read_json_lines(path: Path) -> pa.Table:
    """Read one object from each line; a name that an object lacks is null there.

    Raises:
        DataError: the file is not JSON lines.
    """
    try:
        with open_unpacked(path) as stream:
            return pyarrow.json.read_json(stream, pyarrow.json.ReadOptions(block_size=BLOCK_BYTES))
    except pa.ArrowInvalid as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise DataError(f"{path} does not hold one JSON object on each line ({reason}). Write it so.") from error
    except (pa.ArrowException, OSError, EOFError) as error:
        raise describe_read_error(path, error) from error


def _write_json_lines(path: Path, table: pa.Table, original: Path | None) -> None:
    with open_for_writing(path) as file:
        for start in range(0, table.num_rows, BLOCK_ROWS):
            rows = table.slice(start, BLOCK_ROWS)
            columns = [_format_column(rows.column(name)) for name in rows.column_names]
            names = [json.dumps(name, ensure_ascii=False) for name in rows.column_names]
            for cells in zip(*columns, strict=True):
                pairs = (f"{name}: {cell}" for name, cell in zip(names, cells, strict=True))
                file.write(f"{{{', '.join(pairs)}}}\n".encode())


def _format_column(column: pa.ChunkedArray) -> list[str]:
    """Format values as JSON; 32-bit floats with the digits that they need and no more."""
    if _get_value_type(column.type) == pa.float32():
        return [_format_floats(value) for value in column.to_numpy(zero_copy_only=False)]
    return [json.dumps(value, ensure_ascii=False, default=str) for value in column.to_pylist()]


def _format_floats(value: Any) -> str:
    is_list = hasattr(value, "__len__")
    text = ", ".join(str(number) for number in (value if is_list else [value]))
    return f"[{text}]" if is_list else text


def _get_value_type(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_nested(kind) and kind.num_fields == 1 else kind


FORMAT = TableFormat("JSON lines", (".jsonl", ".ndjson", ".json"), read_json_lines, _write_json_lines, packs=True)
