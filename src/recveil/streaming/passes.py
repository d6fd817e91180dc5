"""The passes over a large table, as tasks that anybody may do: look at ids and attributes, gather, write.

A task is a frozen dataclass that is called with a span or a part. It knows nothing of who calls it.
"""

from __future__ import annotations

import errno
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
from recveil.defenses.embeddings.cell_maps import CellMap
from recveil.streaming.block_table import Block, Span, Table, TablePart, view_as_tensor
from recveil.streaming.engines import read_ahead
from recveil.streaming.id_hashes import Hashes, find_repeated_hashes, hash_ids, write_sorted_run
from recveil.streaming.labels import Labels, count_values, merge_values
from recveil.streaming.map_application import apply_cell_map
from recveil.streaming.parquet_parts import is_finished
from recveil.streaming.sketch import Sketch
from recveil.transport.moments import Moments

__all__ = [
    "GatherTask",
    "PartOutput",
    "SampleTask",
    "ScanTask",
    "ScanResult",
    "CellState",
    "WriteTask",
    "check_unique_ids",
]


@dataclass(frozen=True, eq=False)
class ScanResult:
    """What a look at ids and attributes brings: values and their counts, or the users of each cell."""

    values: pa.Table | None = None
    counts: IntArray | None = None

    def merge(self, other: ScanResult) -> ScanResult:
        """Both together."""
        if self.values is not None:
            return ScanResult(values=merge_values(self.values, other.values))
        assert self.counts is not None
        assert other.counts is not None
        return ScanResult(counts=self.counts + other.counts)


@dataclass(frozen=True, eq=False)
class ScanTask:
    """Read ids and attributes of a span: keep the hashes of the ids in `folder`, and count.

    Without labels, the values in the columns `names` are counted; with them, the users of each cell.
    """

    table: Table
    names: tuple[str, ...]
    folder: Path
    labels: Labels | None = None

    def __call__(self, span: Span) -> ScanResult:
        """What the span brings."""
        total, hashes = None, []
        columns = [self.table.id_column, *(self.names if self.labels is None else ())]
        for block in self.table.read_blocks(span, columns, vectors=False):
            hashes.append(hash_ids(block.columns.column(self.table.id_column), span.part.path))
            if self.labels is None:
                seen = ScanResult(values=count_values(block.columns, self.names))
            else:
                cells = self.labels.assign_cells(block.columns, span.part.path)
                seen = ScanResult(counts=np.bincount(cells, minlength=self.labels.n_cells).astype(np.int64))
            total = seen if total is None else total.merge(seen)
        with write_atomically(self.folder / f"{span.start}.ids") as temporary:
            write_sorted_run(temporary, hashes)
        assert total is not None
        return total


def check_unique_ids(table: Table, folder: Path) -> None:
    """An error that names an id that occurs twice and the files it stands in; the hashes are removed."""
    runs = sorted(folder.glob("*.ids"))
    twice = find_repeated_hashes(runs, table.rows)
    for run in runs:
        run.unlink()
    if not len(twice):
        return
    ids, files = [], []
    for span in table.list_spans():
        for block in table.read_blocks(span, [table.id_column], vectors=False):
            given = block.columns.column(table.id_column)
            found = given.filter(pa.array(np.isin(hash_ids(given, span.part.path), twice)))
            ids += found.to_pylist()
            files += [span.part.path.name] * len(found)
    values, counts = np.unique(np.array(ids, dtype=object).astype(str), return_counts=True)
    repeated = values[counts > 1]
    if not len(repeated):
        return  # different texts with one hash
    where = sorted({file for user, file in zip(ids, files, strict=True) if str(user) == repeated[0]})
    raise DataError(
        f"{table.path} has {len(repeated)} user{'s' * (len(repeated) != 1)} more than once, for instance "
        f"'{repeated[0]}' in {' and '.join(where)}. Keep one row for each."
    )


@dataclass(frozen=True, eq=False)
class CellState:
    """What the first pass brings: the moments of each cell and, where it is asked for, a sketch of its rows."""

    moments: Moments
    sketch: Sketch | None = None

    def merge(self, other: CellState) -> CellState:
        """Both together, in any order."""
        both = None if self.sketch is None or other.sketch is None else self.sketch.merge(other.sketch)
        return CellState(self.moments.merge(other.moments), both)


@dataclass(frozen=True, eq=False)
class GatherTask:
    """Read the vectors of a span, and gather moments and sketch; `below` are the keys that the sketch holds."""

    table: Table
    labels: Labels
    below: Hashes | None
    seed: int

    def __call__(self, span: Span) -> CellState:
        """What the span brings."""
        total = None
        for block in self.table.read_blocks(span, self.labels.columns):
            cells = self.labels.assign_cells(block.columns, span.part.path)
            moments = Moments.from_rows(view_as_tensor(block.x), torch.from_numpy(cells), self.labels.n_cells)
            if not bool(torch.isfinite(moments.scatter).all()):
                _raise_not_finite(block, span.part, self.table)
            sketch = (
                None if self.below is None else Sketch.from_block(block.x, cells, block.start, self.below, self.seed)
            )
            state = CellState(moments, sketch)
            total = state if total is None else total.merge(state)
        assert total is not None
        return total


@dataclass(frozen=True, eq=False)
class SampleTask:
    """Read the vectors of a span, and keep only the sketch."""

    table: Table
    labels: Labels
    below: Hashes
    seed: int

    def __call__(self, span: Span) -> Sketch:
        """The rows that are kept."""
        total = None
        for block in self.table.read_blocks(span, self.labels.columns):
            cells = self.labels.assign_cells(block.columns, span.part.path)
            sketch = Sketch.from_block(block.x, cells, block.start, self.below, self.seed)
            if not np.isfinite(sketch.x).all():
                _raise_not_finite(block, span.part, self.table)
            total = sketch if total is None else total.merge(sketch)
        assert total is not None
        return total


@dataclass(frozen=True)
class PartOutput:
    """A part, and where it goes."""

    part: TablePart
    path: Path

    @property
    def rows(self) -> int:
        """How many."""
        return self.part.rows


@dataclass(frozen=True, eq=False)
class WriteTask:
    """Carry the rows of a part and write it, unless that was done; reading and carrying may run ahead of writing."""

    table: Table
    labels: Labels
    map: CellMap
    job: str
    overlap: bool

    def __call__(self, output: PartOutput) -> None:
        """Read, carry, write; whole or not at all."""
        if is_finished(output.path, self.job):
            return
        try:
            with self.table.write_part(output.part, output.path, self.job) as write:
                for columns, x in self._carry_blocks(output.part):
                    write(columns, x)
        except OSError as error:
            if error.errno != errno.ENOSPC and "No space left" not in str(error):
                raise
            raise DataError(
                f"There is no room left for {output.path}. What was finished is whole and stays; make room, and run "
                "the same command again: it goes on from there."
            ) from error

    def _carry_blocks(self, part: TablePart) -> Iterator[tuple[pa.RecordBatch, NDArray[np.float32]]]:
        names = self.labels.columns if self.table.schema is None else self.table.schema.names
        blocks: Iterator[Block] = self.table.read_blocks(Span(part, 0, len(part.groups)), names)
        moved = (self._carry_block(block, part) for block in (read_ahead(blocks) if self.overlap else blocks))
        yield from read_ahead(moved) if self.overlap else moved

    def _carry_block(self, block: Block, part: TablePart) -> tuple[pa.RecordBatch, NDArray[np.float32]]:
        return block.columns, apply_cell_map(self.map, block.x, self.labels.assign_cells(block.columns, part.path))


def _raise_not_finite(block: Block, part: TablePart, table: Table) -> None:
    bad = np.flatnonzero(~np.isfinite(block.x).all(axis=1))
    if not len(bad):
        raise DataError(f"The vectors in {part.path} hold numbers too large to be squared. Scale them down.")
    row = block.start + int(bad[0]) - part.start
    raise DataError(
        f"{len(bad)} of {len(block.x)} vectors from row {block.start - part.start} of {part.path} on hold NaN or "
        f"infinite numbers, the first in row {row}. Remove or mend these rows."
    )
