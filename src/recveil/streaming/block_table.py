"""Embedding table larger than memory: a folder of Parquet parts, one Parquet file, or a .npy file, read in blocks.

Columns besides the vectors are copied unchanged. A part is written whole or not at all, and its footer names the job
that wrote it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from recveil.core.errors import DataError, UsageError
from recveil.core.files import write_atomically
from recveil.core.types import FloatArray
from recveil.data.io.tables import USER_NAMES, require_column
from recveil.data.io.vector_columns import is_list, require_names
from recveil.data.io.vectors import Layout, parse_vectors
from recveil.streaming.engines import raise_if_stopped
from recveil.streaming.npy_files import read_npy_header, read_npy_rows, write_npy_header
from recveil.streaming.parquet_parts import (
    JOB_KEY,
    copy_writer_options,
    list_part_files,
    open_parquet,
    read_batches,
    write_groups,
)
from recveil.streaming.vector_layout import (
    convert_schema,
    extract_vectors,
    find_vector_columns,
    keeps_number_type,
    replace_vector_columns,
)
from recveil.streaming.vector_pages import read_vector_batches

__all__ = ["Block", "Span", "Table", "TablePart", "open_table"]

BLOCK_BYTES = 4 << 20
"""Bytes of vectors that are read at once: allocators hand buffers of this size out again, larger ones come from the
system as fresh pages, which cost as much as the products."""

GROUP_BLOCKS = 8
"""Most blocks that are written as one row group."""

SPAN_ROWS = 1 << 20
"""Rows that one task of the first pass takes, in whole row groups."""

WriteBlock = Callable[[pa.RecordBatch, FloatArray], None]  # type: ignore[misc, unused-ignore]
"""Write a batch of columns with other vectors."""


@dataclass(frozen=True)
class TablePart:
    """One file of a table.

    Attributes:
        path: the file.
        start: number of its first row in the table.
        groups: rows of each of its row groups.
    """

    path: Path
    start: int
    groups: tuple[int, ...]

    @property
    def rows(self) -> int:
        """Number of rows."""
        return sum(self.groups)


@dataclass(frozen=True)
class Span:
    """Consecutive row groups of one part, from `first` up to but not including `last`."""

    part: TablePart
    first: int
    last: int

    @property
    def start(self) -> int:
        """Number of its first row in the table."""
        return self.part.start + sum(self.part.groups[: self.first])

    @property
    def rows(self) -> int:
        """Number of rows."""
        return sum(self.part.groups[self.first : self.last])


@dataclass(frozen=True, eq=False)
class Block:
    """Consecutive rows of one part.

    Attributes:
        start: number of the first row in the table.
        columns: the columns that were asked for.
        x: vectors; without columns if they were not asked for.
    """

    start: int
    columns: pa.RecordBatch
    x: NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Table:
    """A table and the layout of its vectors.

    Attributes:
        path: file or folder.
        parts: files that have rows.
        d: dimensions of the vectors.
        id_column: column of the user ids.
        vector_columns: columns that hold the vectors.
        schema: schema of all parts; None for a .npy file.
        ids: ids of the rows of a .npy file; None if they are the row numbers.
    """

    path: Path
    parts: tuple[TablePart, ...]
    d: int
    id_column: str
    vector_columns: tuple[str, ...]
    schema: pa.Schema | None
    ids: pa.Array | None = None

    @property
    def rows(self) -> int:
        """Number of rows of all parts."""
        return sum(part.rows for part in self.parts)

    @property
    def layout(self) -> Layout:
        """Names of its columns, for a table of the same form."""
        return Layout(self.vector_columns, self.id_column)

    @property
    def other_columns(self) -> list[str]:
        """Columns besides ids and vectors."""
        names = [] if self.schema is None else self.schema.names
        return [name for name in names if name != self.id_column and name not in self.vector_columns]

    @property
    def block_rows(self) -> int:
        """Rows that are read at once."""
        return max(1, BLOCK_BYTES // (4 * self.d))

    @property
    def keeps_number_type(self) -> bool:
        """Whether the numbers of the vectors keep their type when they are written; others become 32-bit floats."""
        if self.schema is None:
            header = read_npy_header(self.path)
            return header.output_dtype == header.dtype
        return keeps_number_type(self.schema, self.vector_columns)

    def list_spans(self) -> list[Span]:
        """Cut the table into tasks, in the same way for every engine."""
        spans = []
        for part in self.parts:
            first = rows = 0
            for last, size in enumerate(part.groups, 1):
                rows += size
                if rows >= SPAN_ROWS or last == len(part.groups):
                    spans.append(Span(part, first, last))
                    first, rows = last, 0
        return spans

    def read_blocks(self, span: Span, columns: Sequence[str], *, vectors: bool = True) -> Iterator[Block]:
        """Read the rows of a span with these columns, block by block.

        Args:
            span: rows to read.
            columns: columns to read besides the vectors.
            vectors: read the vectors.

        Yields:
            Blocks in the order of the rows.

        Raises:
            UsageError: a .npy file has no such column.
        """
        if self.schema is None:
            yield from self._read_npy_blocks(span, columns, vectors)
            return
        start, groups = span.start, range(span.first, span.last)
        others = [*dict.fromkeys(name for name in columns if name not in self.vector_columns)]
        if not vectors:
            for batch in read_batches(span.part.path, groups, others, SPAN_ROWS):
                yield Block(start, batch, np.empty((len(batch), 0), np.float32))
                start += len(batch)
            return
        for batch, x in read_vector_batches(span.part.path, groups, others, self.layout, self.d, self.block_rows):
            yield Block(start, batch, self._extract_vectors(batch, span.part.path) if x is None else x)
            start += len(batch)

    @contextmanager
    def write_part(self, part: TablePart, out: Path, job: str, dropped: Sequence[str] = ()) -> Iterator[WriteBlock]:
        """Open a part for writing; it appears at `out` only once it is complete.

        Args:
            part: part that the blocks come from, whose format is copied.
            out: file to write.
            job: id of the job, written into the footer.
            dropped: columns to leave out.

        Yields:
            A function that writes one block.
        """
        with write_atomically(out) as temporary:
            if self.schema is None:
                header = read_npy_header(part.path)
                with temporary.open("wb") as file:
                    write_npy_header(file, header, part.rows)
                    yield lambda batch, x: x.astype(header.output_dtype, copy=False).tofile(file)
                return
            with open_parquet(part.path) as original:
                options = copy_writer_options(original.metadata, self.vector_columns)
            columns, schema = self.vector_columns, convert_schema(self.schema, self.vector_columns, dropped)
            metadata = {**(schema.metadata or {}), JOB_KEY: job.encode()}
            schema, max_rows = schema.with_metadata(metadata), GROUP_BLOCKS * self.block_rows
            with write_groups(temporary, schema, options, part.groups, max_rows) as write:
                yield lambda batch, x: write(replace_vector_columns(batch, x, columns, schema))

    def _extract_vectors(self, batch: pa.RecordBatch, path: Path) -> NDArray[np.float32]:
        x = extract_vectors(batch, self.id_column, self.vector_columns, path)
        if x.shape[1] != self.d:
            raise DataError(_describe_other_size(path, x.shape[1], self))
        return x

    def _read_npy_blocks(self, span: Span, columns: Sequence[str], vectors: bool) -> Iterator[Block]:
        """Read the rows of a span of a .npy file."""
        if [name for name in columns if name != self.id_column]:
            raise UsageError(f"{self.path} holds vectors alone. Put the attributes into another file.")
        header = read_npy_header(self.path)
        for number in range(span.first, span.last):
            raise_if_stopped()
            start, size = span.part.start + sum(span.part.groups[:number]), span.part.groups[number]
            x = read_npy_rows(self.path, header, start, size) if vectors else np.empty((size, 0), np.float32)
            ids = pa.array(np.arange(start, start + size)) if self.ids is None else self.ids.slice(start, size)
            yield Block(start, pa.record_batch({self.id_column: ids}), x)


def open_table(path: str | Path, ids: pa.Array | None = None, layout: Layout | None = None) -> Table:
    """Open the table at this path; only footers are read, and they must agree.

    Args:
        path: folder of Parquet parts, Parquet file or .npy file.
        ids: ids of the rows of a .npy file.
        layout: names of the columns; the usual ones if None.

    Returns:
        The table.

    Raises:
        DataError: a file cannot be read, is empty or differs from the others.
        UsageError: ids were given for a table that has its own.
    """
    path, layout = Path(path), layout or Layout()
    if path.suffix.lower() == ".npy":
        return _open_npy(path, ids)
    if ids is not None:
        raise UsageError(f"{path} has ids of its own. Leave out `ids`.")
    files = list_part_files(path)
    parts, schemas, start = [], [], 0
    for file in files:
        with open_parquet(file) as opened:
            meta = opened.metadata
            groups = tuple(meta.row_group(i).num_rows for i in range(meta.num_row_groups))
            parts.append(TablePart(file, start, groups))
            schemas.append(opened.schema_arrow)
        start += sum(groups)
    if not start:
        raise DataError(f"{path} has no rows. Check that it was written whole.")
    schema = schemas[0]
    table = Table(
        path,
        tuple(part for part in parts if part.rows),
        d=0,
        id_column=_find_id_column(schema, files[0], layout),
        vector_columns=find_vector_columns(schema, files[0], layout.vectors),
        schema=schema,
    )
    table = replace(table, d=_read_dimension(table))
    if not table.d:
        raise DataError(f"The vectors in {files[0]} hold no numbers. Give every row the same number, at least one.")
    for file, other in zip(files, schemas, strict=True):
        _check_schema(table, file, other)
    return table


def _read_dimension(table: Table) -> int:
    """Read the dimensions of the vectors from the schema, or from the first row."""
    assert table.schema is not None
    kind = table.schema.field(table.vector_columns[0]).type
    if not is_list(kind):
        return len(table.vector_columns)
    if pa.types.is_fixed_size_list(kind):
        return int(kind.list_size)
    first = next(read_batches(table.parts[0].path, [0], [table.id_column, *table.vector_columns], 1))
    return int(parse_vectors(pa.Table.from_batches([first]), table.parts[0].path, layout=table.layout).x.shape[1])


def _find_id_column(schema: pa.Schema, path: Path, layout: Layout) -> str:
    if layout.key:
        return require_names(schema.names, path, [layout.key])[0]
    return require_column(schema.empty_table(), USER_NAMES, path)


def _check_schema(table: Table, file: Path, schema: pa.Schema) -> None:
    """Refuse a file whose columns differ from those of the first one."""
    assert table.schema is not None
    if schema.equals(table.schema):
        return
    vectors = [field.type for field in schema if field.name == table.vector_columns[0]]  # names may occur twice
    if len(vectors) == 1 and pa.types.is_fixed_size_list(vectors[0]) and vectors[0].list_size != table.d:
        raise DataError(_describe_other_size(file, vectors[0].list_size, table))
    expected, actual = ({f"{field.name} ({field.type})" for field in each} for each in (table.schema, schema))
    differences = ", ".join(sorted(expected ^ actual)) or "their order, or a name that occurs twice"
    raise DataError(
        f"{file} has other columns than {table.parts[0].path.name}: {differences}. Give all files the same columns."
    )


def _describe_other_size(path: Path, d: int, table: Table) -> str:
    return (
        f"The vectors in {path} have {d} numbers, those in {table.parts[0].path.name} {table.d}. "
        "Put only tables of one model into a folder."
    )


def _open_npy(path: Path, ids: pa.Array | None) -> Table:
    header = read_npy_header(path)
    if ids is not None and len(ids) != header.rows:
        raise DataError(f"There are {len(ids)} ids for the {header.rows} vectors in {path}. Give one for each row.")
    table = Table(path, (), header.d, "user_id", ("embedding",), None, ids)
    size = table.block_rows
    groups = tuple(min(size, header.rows - start) for start in range(0, header.rows, size))
    return replace(table, parts=(TablePart(path, 0, groups),))
