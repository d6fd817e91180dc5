"""The Parquet files of a large table: found, opened, read by row group, and written as they were written before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from recveil.core.errors import DataError, UsageError
from recveil.data.io.vectors import PARQUET_SUFFIXES

__all__ = ["JOB_KEY", "is_finished", "open_parquet", "list_part_files", "read_batches", "copy_writer_options"]

JOB_KEY = b"recveil.job"
"""Under this name a part that was written says for which job."""

MAX_UNBUFFERED_BYTES = 128 << 20
"""A file of more bytes than this is read through a buffer, page by page: its row groups may be large."""


def list_part_files(path: Path) -> list[Path]:
    """The Parquet files of a folder, in the order of their names, or the one file; hidden ones do not count."""
    if path.is_dir():
        files = sorted(f for f in path.iterdir() if f.suffix.lower() in PARQUET_SUFFIXES and f.name[0] not in "._")
        if not files:
            raise DataError(f"The folder {path} holds no Parquet files. Name a folder of parts that end in .parquet.")
        return files
    if path.suffix.lower() not in PARQUET_SUFFIXES:
        raise UsageError(f"A large table is a folder of Parquet files, a .parquet or a .npy file; {path} is neither.")
    if not path.is_file():
        raise DataError(f"There is no file {path}. Check the path.")
    return [path]


def read_batches(path: Path, groups: Sequence[int], columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
    """These columns of these row groups, at most so many rows at once and never of two groups."""
    with open_parquet(path) as file:
        for group in groups:
            try:
                yield from file.iter_batches(rows, [group], columns=list(columns), use_threads=False)
            except (pa.ArrowException, OSError) as error:
                raise _make_read_error(path, error) from error


def is_finished(out: Path, job: str) -> bool:
    """Whether this part was written whole, and by this job."""
    try:
        return bool((pq.read_metadata(out).metadata or {}).get(JOB_KEY) == job.encode())
    except (pa.ArrowException, OSError):
        return False


def copy_writer_options(given: pq.FileMetaData, vectors: Sequence[str]) -> dict[str, Any]:
    """To write a file as another was written; only a dictionary of vectors, no two of which are equal, is left out."""
    group = given.row_group(0)
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
def open_parquet(path: Path) -> Iterator[pq.ParquetFile]:
    """The file, closed at the end; one that is broken is named."""
    try:
        file = pq.ParquetFile(path, buffer_size=0 if path.stat().st_size < MAX_UNBUFFERED_BYTES else 1 << 22)
    except (pa.ArrowException, OSError) as error:
        raise _make_read_error(path, error) from error
    with file:
        yield file


def _make_read_error(path: Path, error: Exception) -> DataError:
    return DataError(f"{path} cannot be read as Parquet ({str(error).splitlines()[0]}). Write this file again.")
