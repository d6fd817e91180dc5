"""An embedding table larger than memory: a folder of Parquet parts, one Parquet file, or a .npy file, read in blocks.

Row groups of 32-bit vectors in fixed-size lists are looked at where the reader put them, without a copy. Other columns
are carried through as they are. A part is written whole or not at all, and says in its footer which job wrote it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
import torch.utils.dlpack
from numpy.typing import NDArray

from recveil.core.errors import DataError, UsageError
from recveil.core.files import write_atomically
from recveil.core.types import FloatArray
from recveil.data.io.tables import USER_NAMES, require_column
from recveil.data.io.vectors import Vectors, find_numbered_columns, parse_vectors, replace_vectors
from recveil.streaming.parquet_parts import JOB_KEY, copy_writer_options, list_part_files, open_parquet, read_batches

__all__ = ["Block", "TablePart", "Span", "Table", "view_as_tensor", "open_table"]

BLOCK_BYTES = 32 << 20
"""Vectors that are read at once."""

SPAN_ROWS = 1 << 20
"""Rows that one task of the first pass takes, in whole row groups."""

WriteBlock = Callable[[pa.RecordBatch, FloatArray], None]  # type: ignore[misc, unused-ignore]


@dataclass(frozen=True)
class TablePart:
    """One file of a table: the number of its first row, and the rows of each of its row groups."""

    path: Path
    start: int
    groups: tuple[int, ...]

    @property
    def rows(self) -> int:
        """How many."""
        return sum(self.groups)


@dataclass(frozen=True)
class Span:
    """Some row groups of one part, one after the other."""

    part: TablePart
    first: int
    last: int

    @property
    def start(self) -> int:
        """The number of its first row in the table."""
        return self.part.start + sum(self.part.groups[: self.first])

    @property
    def rows(self) -> int:
        """How many."""
        return sum(self.part.groups[self.first : self.last])


@dataclass(frozen=True, eq=False)
class Block:
    """Rows of one part: the columns that were asked for, and, where these are among them, the vectors."""

    start: int
    columns: pa.RecordBatch
    x: NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Table:
    """Where the vectors are: `key` names the ids, `vectors` the columns that hold the numbers.

    `schema` is that of all parts; a .npy file has none, and its rows have the `ids` of another file, or their numbers.
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
        """Of all parts."""
        return sum(part.rows for part in self.parts)

    @property
    def other_columns(self) -> list[str]:
        """The columns besides ids and vectors."""
        given = [] if self.schema is None else self.schema.names
        return [name for name in given if name != self.id_column and name not in self.vector_columns]

    @property
    def block_rows(self) -> int:
        """Rows that are read at once."""
        return max(1, BLOCK_BYTES // (4 * self.d))

    def list_spans(self) -> list[Span]:
        """The table cut into tasks; it does not depend on who does them."""
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
        """The rows of a span with these columns."""
        if self.schema is None:
            yield from self._read_npy_blocks(span, columns, vectors)
            return
        needed = [*dict.fromkeys([*columns, *(self._columns_read if vectors else ())])]
        start, size = span.start, self.block_rows if vectors else SPAN_ROWS
        for batch in read_batches(span.part.path, range(span.first, span.last), needed, size):
            x = self._extract_vectors(batch, span.part.path) if vectors else np.empty((len(batch), 0), np.float32)
            yield Block(start, batch, x)
            start += len(batch)

    @contextmanager
    def write_part(self, part: TablePart, out: Path, job: str) -> Iterator[WriteBlock]:
        """A function that writes a block with other vectors; the part appears at `out` only if all goes well."""
        with write_atomically(out) as temporary:
            if self.schema is None:
                with temporary.open("wb") as file:
                    dtype = _read_npy_header(part.path)[2]
                    header = {"descr": dtype.str, "fortran_order": False, "shape": (part.rows, self.d)}
                    np.lib.format.write_array_header_2_0(file, header)
                    yield lambda batch, x: x.astype(dtype, copy=False).tofile(file)
                return
            with open_parquet(part.path) as given:
                options = copy_writer_options(given.metadata, self.vector_columns)
            metadata = {**(self.schema.metadata or {}), JOB_KEY: job.encode()}
            with pq.ParquetWriter(temporary, self.schema.with_metadata(metadata), **options) as writer:
                yield lambda batch, x: writer.write_batch(self._replace_vectors(batch, x), len(batch))

    @property
    def _columns_read(self) -> tuple[str, ...]:
        return self.vector_columns if self._is_plain else (self.id_column, *self.vector_columns)

    @property
    def _is_plain(self) -> bool:
        """Whether the vectors lie in memory as we need them."""
        assert self.schema is not None
        kind = self.schema.field(self.vector_columns[0]).type
        return bool(pa.types.is_fixed_size_list(kind) and kind.value_type == pa.float32())

    def _extract_vectors(self, batch: pa.RecordBatch, path: Path) -> NDArray[np.float32]:
        if self._is_plain:
            lists = batch.column(self.vector_columns[0])
            values = lists.flatten()
            if not lists.null_count and not values.null_count:
                return np.asarray(values.to_numpy()).reshape(-1, self.d)
            raise DataError(f"Some rows of {path} have no vector, or one with numbers missing. Remove or mend them.")
        x = parse_vectors(pa.Table.from_batches([batch]).select([self.id_column, *self.vector_columns]), path).x
        if x.shape[1] != self.d:
            raise DataError(_describe_other_size(path, x.shape[1], self))
        return x

    def _replace_vectors(self, batch: pa.RecordBatch, x: FloatArray) -> pa.RecordBatch:
        assert self.schema is not None
        if self._is_plain:
            place = self.schema.get_field_index(self.vector_columns[0])
            kind = self.schema.field(place).type
            lists = pa.FixedSizeListArray.from_arrays(pa.array(x.reshape(-1)), type=kind)
            columns = [lists if i == place else batch.column(i) for i in range(batch.num_columns)]
            return pa.RecordBatch.from_arrays(columns, schema=self.schema)
        field = self.schema.field(self.vector_columns[0]).type
        wide = np.float64 if pa.float64() in (field, getattr(field, "value_type", field)) else np.float32
        table = pa.Table.from_batches([batch])
        old = Vectors(
            batch.column(self.id_column),
            x.astype(np.float32, copy=False),
            self.id_column,
            self.vector_columns,
            table,
            wide,
        )
        return replace_vectors(old, x.astype(wide)).cast(self.schema).combine_chunks().to_batches()[0]

    def _read_npy_blocks(self, span: Span, columns: Sequence[str], vectors: bool) -> Iterator[Block]:
        if [name for name in columns if name != self.id_column]:
            raise UsageError(f"{self.path} holds vectors alone. Give the attributes in a file of their own.")
        offset, _, dtype = _read_npy_header(self.path)
        for number in range(span.first, span.last):
            start, size = span.part.start + sum(span.part.groups[:number]), span.part.groups[number]
            where = {"offset": offset + start * self.d * dtype.itemsize, "shape": (size, self.d)}
            x = np.memmap(self.path, dtype, "r", **where) if vectors else np.empty((size, 0), np.float32)  # type: ignore[call-overload]
            ids = pa.array(np.arange(start, start + size)) if self.ids is None else self.ids.slice(start, size)
            with np.errstate(over="ignore"):  # what is too large becomes infinite, and is refused as such
                yield Block(start, pa.record_batch({self.id_column: ids}), np.array(x, dtype=np.float32))


def view_as_tensor(x: FloatArray) -> torch.Tensor:
    """The same numbers for torch, where they are; it must not write to them."""
    tensor: torch.Tensor = torch.utils.dlpack.from_dlpack(x)  # unlike from_numpy it takes what is read-only
    return tensor


def open_table(path: str | Path, ids: pa.Array | None = None) -> Table:
    """The table at this path, its footers read and found to agree; nothing else is read yet."""
    path = Path(path)
    if path.suffix.lower() == ".npy":
        return _open_npy(path, ids)
    if ids is not None:
        raise UsageError(f"{path} has ids of its own. Leave out --ids.")
    files = list_part_files(path)
    parts, schemas, start = [], [], 0
    for file in files:
        with open_parquet(file) as given:
            meta = given.metadata
            groups = tuple(meta.row_group(i).num_rows for i in range(meta.num_row_groups))
            parts.append(TablePart(file, start, groups))
            schemas.append(given.schema_arrow)
        start += sum(groups)
    if not start:
        raise DataError(f"{path} has no rows. Check that it was written whole.")
    schema = schemas[0]
    empty = schema.empty_table()
    listed = "embedding" in schema.names
    table = Table(
        path,
        tuple(part for part in parts if part.rows),
        d=0,
        id_column=require_column(empty, USER_NAMES, files[0]),
        vector_columns=("embedding",) if listed else find_numbered_columns(schema.names, files[0]),
        schema=schema,
    )
    table = Table(table.path, table.parts, _read_dimension(table), table.id_column, table.vector_columns, schema)
    for file, other in zip(files, schemas, strict=True):
        _check_schema(table, file, other)
    return table


def _read_dimension(table: Table) -> int:
    assert table.schema is not None
    if len(table.vector_columns) > 1 or table.vector_columns[0] != "embedding":
        return len(table.vector_columns)
    kind = table.schema.field("embedding").type
    if pa.types.is_fixed_size_list(kind):
        return int(kind.list_size)
    first = next(read_batches(table.parts[0].path, [0], [table.id_column, "embedding"], 1))
    return int(parse_vectors(pa.Table.from_batches([first]), table.parts[0].path).x.shape[1])


def _check_schema(table: Table, file: Path, schema: pa.Schema) -> None:
    assert table.schema is not None
    if schema.equals(table.schema):
        return
    name = table.vector_columns[0]
    if (
        name in schema.names
        and pa.types.is_fixed_size_list(kind := schema.field(name).type)
        and kind.list_size != table.d
    ):
        raise DataError(_describe_other_size(file, kind.list_size, table))
    mine = {f"{field.name} ({field.type})" for field in table.schema}
    other = {f"{field.name} ({field.type})" for field in schema}
    differ = ", ".join(sorted(mine ^ other)) or "their order"
    raise DataError(
        f"{file} has other columns than {table.parts[0].path.name}: {differ}. Give all files the same columns."
    )


def _describe_other_size(path: Path, d: int, table: Table) -> str:
    return (
        f"The vectors in {path} have {d} numbers, those in {table.parts[0].path.name} {table.d}. "
        "Put only tables of one model into a folder."
    )


def _open_npy(path: Path, ids: pa.Array | None) -> Table:
    _, shape, _ = _read_npy_header(path)
    table = Table(path, (), shape[1], "user_id", ("embedding",), None, ids)
    if ids is not None and len(ids) != shape[0]:
        raise DataError(f"There are {len(ids)} ids for the {shape[0]} vectors in {path}. Give one for each row.")
    size = table.block_rows
    groups = tuple(min(size, shape[0] - start) for start in range(0, shape[0], size))
    return Table(path, (TablePart(path, 0, groups),), shape[1], "user_id", ("embedding",), None, ids)


def _read_npy_header(path: Path) -> tuple[int, tuple[int, int], np.dtype[Any]]:
    try:
        mapped = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise DataError(f"{path} is not a whole .npy file of plain numbers. Write it again.") from error
    plain = isinstance(mapped, np.memmap) and mapped.ndim == 2 and mapped.size and mapped.flags.c_contiguous
    if not plain or not np.issubdtype(mapped.dtype, np.floating):
        raise DataError(f"{path} holds no table of floats, one row for each user, row after row. Write it so.")
    return int(mapped.offset), (int(mapped.shape[0]), int(mapped.shape[1])), mapped.dtype
