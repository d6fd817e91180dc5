"""Passes over a large table, as tasks: scan ids and attributes, gather statistics, write.

A task is a frozen dataclass that is called with a span or a part. It does not depend on the engine that runs it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray

from recveil.core.errors import DataError
from recveil.core.files import write_atomically
from recveil.core.types import IntArray
from recveil.streaming.block_table import Block, Span, Table, TablePart
from recveil.streaming.engines import read_ahead
from recveil.streaming.id_hashes import Hashes, find_repeated_hashes, hash_ids
from recveil.streaming.labels import Labels
from recveil.streaming.map_application import RowMap, apply_cell_map
from recveil.streaming.parquet_parts import is_finished
from recveil.streaming.sketch import Sketch
from recveil.streaming.target_columns import convert_views
from recveil.streaming.value_counts import count_values, merge_values
from recveil.streaming.vector_layout import view_as_tensor
from recveil.streaming.work_folder import explain_full_disk
from recveil.transport.moments import Moments, MomentSum

__all__ = [
    "CellState",
    "GatherTask",
    "MeasureTask",
    "PartOutput",
    "RowTask",
    "SampleTask",
    "ScanResult",
    "ScanTask",
    "WriteTask",
    "check_unique_ids",
    "stack_rows",
]


@dataclass(frozen=True, eq=False)
class ScanResult:
    """Result of a scan of ids and attributes.

    Attributes:
        values: distinct values and their counts, if the classes are still to be made.
        cells: first row of each scanned piece and the cells of its rows, if the labels are known.
        matched: users whose ids are in the file of attributes.
    """

    values: pa.Table | None = None
    cells: tuple[tuple[int, NDArray[np.int16]], ...] = ()
    matched: int = 0

    def merge(self, other: ScanResult) -> ScanResult:
        """Return the result of both scans."""
        if self.values is not None:
            return ScanResult(values=merge_values(self.values, other.values))
        return ScanResult(cells=self.cells + other.cells, matched=self.matched + other.matched)

    def collect_cells(self) -> NDArray[np.int16]:
        """Return the cell of each row of the table."""
        return np.concatenate([cells for _, cells in sorted(self.cells, key=lambda piece: piece[0])])


@dataclass(frozen=True, eq=False)
class ScanTask:
    """Scan of the ids and attributes of a span.

    The hashes of the ids are written to `folder` in order. Without labels the values of the columns `names` are
    counted; with labels the cell of each row is looked up.
    """

    table: Table
    names: tuple[str, ...]
    folder: Path
    labels: Labels | None = None

    def __call__(self, span: Span) -> ScanResult:
        """Scan one span."""
        values, hash_parts = None, [np.empty(0, np.uint64)]
        lookup = None if self.labels is None else self.labels.lookup
        columns = [self.table.id_column, *(self.names if self.labels is None else ())]
        for block in self.table.read_blocks(span, columns, vectors=False):
            ids = block.columns.column(self.table.id_column)
            hash_parts.append(hash_ids(ids, span.part.path, text=lookup is not None and lookup.text))
            if lookup is None:
                counted = count_values(block.columns, self.names)
                values = counted if values is None else merge_values(values, counted)
        hashes = np.concatenate(hash_parts)
        order = np.argsort(hashes)
        hashes = hashes[order]
        path = self.folder / f"{span.start}.ids"
        with explain_full_disk(path), write_atomically(path, private=True) as temporary:
            hashes.tofile(temporary)
        if lookup is None:
            return ScanResult(values=values)
        cells = np.empty(len(order), dtype=np.int16)
        cells[order], matched = lookup.find_cells(hashes)
        return ScanResult(cells=((span.start, cells),), matched=matched)


def check_unique_ids(table: Table, folder: Path, *, text: bool = False) -> None:
    """Refuse repeated ids, naming one and its files.

    The hashes are removed from `folder`; with `text` they are those of numbers as text.
    """
    runs = sorted(folder.glob("*.ids"))
    repeated_hashes = find_repeated_hashes(runs, table.rows)
    for run in runs:
        run.unlink()
    if not len(repeated_hashes):
        return
    ids, files = [], []
    for span in table.list_spans():
        for block in table.read_blocks(span, [table.id_column], vectors=False):
            block_ids = convert_views(block.columns.column(table.id_column))
            is_repeated = np.isin(hash_ids(block_ids, span.part.path, text=text), repeated_hashes)
            ids += block_ids.filter(pa.array(is_repeated)).to_pylist()
            files += [span.part.path.name] * int(is_repeated.sum())
    values, counts = np.unique(np.array(ids, dtype=object).astype(str), return_counts=True)
    repeated = values[counts > 1]
    if not len(repeated):
        return  # distinct texts with the same hash
    places = sorted({file for user, file in zip(ids, files, strict=True) if str(user) == repeated[0]})
    raise DataError(
        f"{table.path} has {len(repeated)} user{'s' * (len(repeated) != 1)} more than once, for instance "
        f"'{repeated[0]}' in {' and '.join(places)}. Keep one row for each."
    )


@dataclass(frozen=True, eq=False)
class CellState:
    """Result of the first pass.

    Attributes:
        moments: moments of each cell.
        sketch: sample of the rows of each cell, if asked for.
    """

    moments: Moments
    sketch: Sketch | None = None

    def merge(self, other: CellState) -> CellState:
        """Return the state of both sets of rows; the order does not matter."""
        both = None if self.sketch is None or other.sketch is None else self.sketch.merge(other.sketch)
        return CellState(self.moments.merge(other.moments), both)


@dataclass(frozen=True, eq=False)
class GatherTask:
    """Gathering of moments and sketch from the vectors of a span.

    `key_limits` are the largest keys that the sketch holds, by cell; None for no sketch.
    """

    table: Table
    labels: Labels
    key_limits: Hashes | None
    seed: int

    def __call__(self, span: Span) -> CellState:
        """Gather one span."""
        total, limits = MomentSum(self.labels.n_cells, self.table.d, torch.device("cpu")), self.key_limits
        sketches = []
        for block in self.table.read_blocks(span, self.labels.columns):
            cells = self.labels.assign_cells(block.columns, span.part.path, block.start)
            total.add_rows(view_as_tensor(block.x), cells)
            if not total.is_finite():
                _raise_not_finite(block, span.part, self.table)
            if limits is not None:
                sketches.append(Sketch.from_block(block.x, cells, block.start, limits, self.seed))
        return CellState(total.compute_moments(), Sketch.join(sketches) if sketches else None)


@dataclass(frozen=True, eq=False)
class MeasureTask:
    """Measurement of the moments of every `step`-th row of a span; all rows must be finite."""

    table: Table
    step: int

    def __call__(self, span: Span) -> Moments:
        """Measure one span."""
        total = MomentSum(1, self.table.d, torch.device("cpu"))
        for block in self.table.read_blocks(span, ()):
            if not np.isfinite(block.x).all():
                _raise_not_finite(block, span.part, self.table)
            rows = block.x[-block.start % self.step :: self.step]
            total.add_rows(view_as_tensor(rows), np.zeros(len(rows), dtype=np.int16))
        return total.compute_moments()


@dataclass(frozen=True, eq=False)
class SampleTask:
    """Gathering of a sketch alone from the vectors of a span."""

    table: Table
    labels: Labels
    key_limits: Hashes
    seed: int

    def __call__(self, span: Span) -> Sketch:
        """Gather one span."""
        sketches = []
        for block in self.table.read_blocks(span, self.labels.columns):
            cells = self.labels.assign_cells(block.columns, span.part.path, block.start)
            sketches.append(Sketch.from_block(block.x, cells, block.start, self.key_limits, self.seed))
            if not np.isfinite(sketches[-1].x).all():
                _raise_not_finite(block, span.part, self.table)
        return Sketch.join(sketches)


@dataclass(frozen=True, eq=False)
class RowTask:
    """Reading of the vectors of these rows in a span; the numbers of the rows are in order."""

    table: Table
    row_numbers: IntArray

    def __call__(self, span: Span) -> NDArray[np.float32]:
        """Read the rows that lie in one span."""
        vectors = [np.empty((0, self.table.d), np.float32)]
        for block in self.table.read_blocks(span, ()):
            first, last = np.searchsorted(self.row_numbers, [block.start, block.start + len(block.x)])
            chosen = block.x[self.row_numbers[first:last] - block.start]
            if not np.isfinite(chosen).all():
                _raise_not_finite(block, span.part, self.table)
            vectors.append(chosen)
        return np.concatenate(vectors)


def stack_rows(first: NDArray[np.float32], second: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the rows of one span after those of another."""
    return np.concatenate((first, second))


@dataclass(frozen=True)
class PartOutput:
    """A part of the table, and the file to write it to."""

    part: TablePart
    path: Path

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.part.rows


@dataclass(frozen=True, eq=False)
class WriteTask:
    """Writing of one part with its rows carried by the map of their cells.

    The columns `dropped` are left out. With `overlap` reading and carrying run ahead of writing, in other threads.
    """

    table: Table
    labels: Labels
    map: RowMap
    job: str
    overlap: bool
    dropped: tuple[str, ...] = ()

    def __call__(self, output: PartOutput) -> None:
        """Write one part, whole or not at all, unless this job has already written it."""
        if is_finished(output.path, self.job):
            return
        part = output.part
        with explain_full_disk(output.path), self.table.write_part(part, output.path, self.job, self.dropped) as write:
            for columns, x in self._carry_blocks(part):
                write(columns, x)

    def _carry_blocks(self, part: TablePart) -> Iterator[tuple[pa.RecordBatch, NDArray[np.float32]]]:
        names = self.labels.columns if self.table.schema is None else self.table.schema.names
        blocks: Iterator[Block] = self.table.read_blocks(Span(part, 0, len(part.groups)), names)
        carried = (self._carry_block(block, part) for block in (read_ahead(blocks) if self.overlap else blocks))
        yield from read_ahead(carried) if self.overlap else carried

    def _carry_block(self, block: Block, part: TablePart) -> tuple[pa.RecordBatch, NDArray[np.float32]]:
        cells = self.labels.assign_cells(block.columns, part.path, block.start)
        return block.columns, apply_cell_map(self.map, block.x, cells)


def _raise_not_finite(block: Block, part: TablePart, table: Table) -> None:
    """Raise an error that names the first vector that cannot be used."""
    bad = np.flatnonzero(~np.isfinite(block.x).all(axis=1))
    if not len(bad):
        raise DataError(f"The vectors in {part.path} hold numbers too large to be squared. Scale them down.")
    row = block.start + int(bad[0]) - part.start
    raise DataError(
        f"{len(bad)} of {len(block.x)} vectors from row {block.start - part.start} of {part.path} on hold NaN or "
        f"infinite numbers, the first in row {row}. Remove or repair these rows."
    )
