"""Vectors read from the pages of a Parquet file where their numbers lie, at half the cost of Arrow's reader.

Arrow expands two levels of nesting for every number. Where every row has the same number of numbers, the levels of a
page repeat the same bytes, and comparing these bytes is enough to know that the numbers are rows of vectors. Pages of
any other form are left to Arrow.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from recveil.data.io.vector_columns import is_list
from recveil.data.io.vectors import Layout
from recveil.streaming.page_headers import OtherPageError, holds_full_lists, is_single_run, read_page_header
from recveil.streaming.parquet_parts import open_parquet, read_group

__all__ = ["VectorPages", "read_vector_batches"]

CODECS = {"UNCOMPRESSED": None, "ZSTD": "zstd", "SNAPPY": "snappy", "GZIP": "gzip", "BROTLI": "brotli"}

HEADER_BYTES = 256
"""More than the header of a data page takes, with statistics of floats."""

MAX_BYTES_PER_VALUE, MAX_PAGE_EXTRA = 8, 1 << 16
"""Largest size of a page that is believed: numbers take four bytes each, levels and compression little more."""


def read_vector_batches(
    path: Path, groups: Sequence[int], others: Sequence[str], layout: Layout, d: int, rows: int
) -> Iterator[tuple[pa.RecordBatch, NDArray[np.float32] | None]]:
    """Read vectors and other columns in batches that never span two row groups.

    Args:
        path: the file.
        groups: numbers of the row groups.
        others: columns to read besides the vectors.
        layout: names of the columns of ids and vectors.
        d: numbers of each vector.
        rows: most rows of a batch.

    Yields:
        Batches in the order of the rows, and their vectors; None if Arrow read them, into the batch.
    """
    needed = [*dict.fromkeys([*others, layout.key, *layout.vectors])]
    with open_parquet(path) as file:
        for group in groups:
            done = 0
            try:
                with VectorPages.open(file, path, group, layout.vectors[0], d) as pages:
                    for batch in read_group(file, path, group, others, rows):
                        yield batch, pages.read_rows(len(batch))
                        done += len(batch)
            except OtherPageError:
                for batch in read_group(file, path, group, needed, rows):
                    left = batch.slice(min(done, len(batch)))
                    done -= len(batch) - len(left)
                    if len(left):
                        yield left, None


class VectorPages:
    """The vectors of one row group, read in order.

    Args:
        path: the file.
        column: description of the column of the vectors in the row group.
        max_level: definition level of a number that is present.
        d: numbers of each vector.
    """

    def __init__(self, path: Path, column: pq.ColumnChunkMetaData, max_level: int, d: int) -> None:
        codec = CODECS[column.compression]
        self._codec = None if codec is None else pa.Codec(codec)
        self._d, self._max_level, self._remaining = d, max_level, column.num_values
        self._at, self._unread = column.data_page_offset, 0
        self._file: Any = pa.OSFile(str(path))
        self._page = self._file

    @classmethod
    def open(cls, file: pq.ParquetFile, path: Path, group: int, name: str, d: int) -> Self:
        """Open the vectors of a row group.

        Args:
            file: the file, opened by Arrow.
            path: its path.
            group: number of the row group.
            name: column of the vectors.
            d: numbers of each vector.

        Raises:
            OtherPageError: the column does not hold lists of 32-bit floats in pages that can be read here.
        """
        kind = file.schema_arrow.field(name).type
        leaves = [j for j in range(len(file.schema)) if file.schema.column(j).path.rsplit(".", 2)[0] == name]
        if not is_list(kind) or kind.value_type != pa.float32() or len(leaves) != 1:
            raise OtherPageError
        level, column = file.schema.column(leaves[0]), file.metadata.row_group(group).column(leaves[0])
        is_plain = set(column.encodings) <= {"PLAIN", "RLE"} and not column.has_dictionary_page
        if not is_plain or level.max_repetition_level != 1 or column.compression not in CODECS:
            raise OtherPageError
        return cls(path, column, level.max_definition_level, d)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def read_rows(self, n: int) -> NDArray[np.float32]:
        """Read the next `n` vectors.

        Raises:
            OtherPageError: a page has another form, or a vector another size.
        """
        buffer = pa.allocate_buffer(4 * n * self._d)  # the allocator hands the same memory out again
        rows, filled = np.frombuffer(buffer, np.uint8), 0
        while filled < len(rows):
            if not self._unread:
                self._open_page()
            taken = min(self._unread, len(rows) - filled)
            if self._page.readinto(rows[filled : filled + taken]) != taken:
                raise OtherPageError
            filled, self._unread = filled + taken, self._unread - taken
        return rows.view(np.float32).reshape(n, self._d)

    def _open_page(self) -> None:
        """Open the next page where its numbers begin; one that is not compressed is read from the file itself."""
        try:
            self._file.seek(self._at)
            header = read_page_header(self._file.read(HEADER_BYTES))
            largest = MAX_PAGE_EXTRA + MAX_BYTES_PER_VALUE * header.n_values
            sizes = (header.compressed_size, header.uncompressed_size)
            if not 0 < header.n_values <= self._remaining or not all(0 <= size <= largest for size in sizes):
                raise OtherPageError
            self._file.seek(self._at + header.length)
            self._page = self._file
            if self._codec is not None:
                data = self._file.read_buffer(header.compressed_size)
                self._page = pa.BufferReader(self._codec.decompress(data, header.uncompressed_size))
            n_level_bytes = self._check_levels(header.n_values)
        except (pa.ArrowException, OSError) as error:
            raise OtherPageError from error
        if n_level_bytes + 4 * header.n_values != header.uncompressed_size:
            raise OtherPageError
        self._at += header.length + header.compressed_size
        self._unread, self._remaining = 4 * header.n_values, self._remaining - header.n_values

    def _check_levels(self, n_values: int) -> int:
        """Read the levels of a page and return their size; no number may be missing, and all rows must be full."""
        repetition, definition = (self._read_levels(n_values) for _ in range(2))
        is_full = is_single_run(definition, n_values, self._max_level)
        if not is_full or not holds_full_lists(repetition, n_values, self._d, first=-self._remaining % self._d):
            raise OtherPageError
        return 8 + len(repetition) + len(definition)

    def _read_levels(self, n_values: int) -> bytes:
        size = int.from_bytes(self._page.read(4), "little")
        if size > MAX_PAGE_EXTRA + n_values:
            raise OtherPageError
        levels: bytes = self._page.read(size)
        return levels
