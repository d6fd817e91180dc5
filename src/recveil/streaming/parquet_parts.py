"""Parquet files of a large table: listed, opened, read by row group, and written in the format they had."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from recveil.core.errors import DataError, UsageError
from recveil.data.io.formats.registry import PARQUET_ENDINGS
from recveil.streaming.engines import raise_if_stopped

__all__ = [
    "JOB_KEY",
    "copy_writer_options",
    "is_finished",
    "list_part_files",
    "open_parquet",
    "read_batches",
    "read_group",
    "write_groups",
]

JOB_KEY = b"recveil.job"
"""Key in the footer of a written part under which it names its job."""

MAX_UNBUFFERED_BYTES = 128 << 20
"""Larger files are read through a buffer, page by page, since their row groups may be large."""

VALUES_PER_STEP = 1 << 16
"""Values of a column that are encoded at once; Arrow's 1,024 take a tenth longer."""


def list_part_files(path: Path) -> list[Path]:
    """List the Parquet files of a folder by name, or the one file.

    Hidden files do not count.
    """
    if path.is_dir():
        files = sorted(f for f in path.iterdir() if f.suffix.lower() in PARQUET_ENDINGS and f.name[0] not in "._")
        if not files:
            raise DataError(f"The folder {path} holds no Parquet files. Name a folder of parts that end in .parquet.")
        return files
    if path.suffix.lower() not in PARQUET_ENDINGS:
        raise UsageError(f"{path} is no large table. Name a folder of Parquet files, a .parquet or a .npy file.")
    if not path.is_file():
        raise DataError(f"There is no file {path}. Check the path.")
    return [path]


def read_batches(path: Path, groups: Sequence[int], columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
    """Read these columns of these row groups in batches that never span two groups.

    Args:
        path: the file.
        groups: numbers of the row groups.
        columns: columns to read.
        rows: most rows of a batch.

    Yields:
        Batches in the order of the rows.

    Raises:
        DataError: the file is broken.
    """
    with open_parquet(path) as file:
        for group in groups:
            yield from read_group(file, path, group, columns, rows)


def read_group(
    file: pq.ParquetFile, path: Path, group: int, columns: Sequence[str], rows: int
) -> Iterator[pa.RecordBatch]:
    """Read these columns of one row group in batches of `rows`; a broken file is an error that names it."""
    try:
        for batch in file.iter_batches(rows, [group], columns=list(columns), use_threads=False):
            raise_if_stopped()
            yield batch
    except (pa.ArrowException, OSError) as error:
        raise _make_read_error(path, error) from error


def is_finished(out: Path, job: str) -> bool:
    """Tell whether this part was written whole by this job."""
    try:
        return bool((pq.read_metadata(out).metadata or {}).get(JOB_KEY) == job.encode())
    except (pa.ArrowException, OSError):
        return False


def copy_writer_options(metadata: pq.FileMetaData, vectors: Sequence[str]) -> dict[str, Any]:
    """Return the options that write a file in the format of another.

    Vectors get no dictionary, since no two are equal.
    """
    group = metadata.row_group(0)
    columns = [group.column(j) for j in range(group.num_columns)]
    paths = {c.path_in_schema: c for c in columns}
    dictionary = [p for p, c in paths.items() if any("DICTIONARY" in e for e in c.encodings)]
    codecs = {p: "none" if c.compression == "UNCOMPRESSED" else c.compression.lower() for p, c in paths.items()}
    return {
        "compression": codecs,
        "use_dictionary": [p for p in dictionary if p.split(".")[0] not in vectors],
        "write_statistics": [p for p, c in paths.items() if c.is_stats_set],
        "use_compliant_nested_type": not any(p.endswith(".list.item") for p in paths),
    }


@contextmanager
def write_groups(
    path: Path, schema: pa.Schema, options: Mapping[str, Any], groups: Sequence[int], max_rows: int
) -> Iterator[Callable[[pa.RecordBatch], None]]:
    """Write a file whose row groups end where those of another file do, or sooner.

    Args:
        path: file to write.
        schema: its columns.
        options: options of the writer.
        groups: rows of each row group of the other file.
        max_rows: rows from which a row group is written.

    Yields:
        A function that takes one batch; batches do not span two groups of the other file.
    """
    ends, waiting, rows = set(accumulate(groups)), [], 0

    def take_batch(batch: pa.RecordBatch) -> None:
        nonlocal rows
        waiting.append(batch)
        rows += len(batch)
        collected = sum(map(len, waiting))
        if collected >= max_rows or rows in ends:
            writer.write_table(pa.Table.from_batches(waiting), collected)
            waiting.clear()

    with pq.ParquetWriter(path, schema, **options, write_batch_size=VALUES_PER_STEP) as writer:
        yield take_batch


@contextmanager
def open_parquet(path: Path) -> Iterator[pq.ParquetFile]:
    """Open a Parquet file, and close it at the end; an error names the file."""
    try:
        file = pq.ParquetFile(path, buffer_size=0 if path.stat().st_size < MAX_UNBUFFERED_BYTES else 1 << 22)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:  # the last one: names of columns
        raise _make_read_error(path, error) from error
    with file:
        yield file


def _make_read_error(path: Path, error: Exception) -> DataError:
    return DataError(f"{path} cannot be read as Parquet ({str(error).splitlines()[0]}). Write this file again.")
