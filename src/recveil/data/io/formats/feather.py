"""Feather and Arrow IPC files, in the file and in the stream form."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.feather
import pyarrow.ipc

from recveil.core.errors import DataError
from recveil.data.io.formats.format_types import TableFormat

__all__ = ["FORMAT", "read_feather"]

_FILE_MARKS = (b"ARROW1", b"FEA1")


def read_feather(path: Path) -> pa.Table:
    """Read a Feather or Arrow IPC file, or a stream of Arrow batches.

    Raises:
        DataError: the file is damaged.
    """
    try:
        if not _is_stream(path):
            return pyarrow.feather.read_table(path, memory_map=False)
        with path.open("rb") as file, pyarrow.ipc.open_stream(file) as reader:
            return reader.read_all()
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path} is not a whole Feather or Arrow file. Download or write it again.") from error


def _write_feather(path: Path, table: pa.Table, original: Path | None) -> None:
    """Write a stream where the original is one, else a Feather file (which Arrow IPC files are)."""
    if original is None or not _is_stream(original):
        pyarrow.feather.write_feather(
            table, str(path), compression="lz4" if path.suffix == ".feather" else "uncompressed"
        )
        return
    with path.open("wb") as file, pyarrow.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table)


def _is_stream(path: Path) -> bool:
    with path.open("rb") as file:
        return not file.read(6).startswith(_FILE_MARKS)


FORMAT = TableFormat(
    "Feather, Arrow IPC", (".feather", ".arrow", ".ipc"), read_feather, _write_feather, keeps_types=True
)
