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
from recveil.streaming.block_table import Block, Part, Span, Table, as_tensor
from recveil.streaming.engines import ahead
from recveil.streaming.id_hashes import Hashes, alike_in, hashed, write_run
from recveil.streaming.labels import Labels, count_values, merge_values
from recveil.streaming.map_application import apply_cell_map
from recveil.streaming.parquet_parts import finished
from recveil.streaming.sketch import Sketch
from recveil.transport.moments import Moments

__all__ = ["Gather", "Output", "Sample", "Scan", "Seen", "State", "Write", "refuse_repeats"]


@dataclass(frozen=True, eq=False)
class Seen:
    """What a look at ids and attributes brings: values and their counts, or the users of each cell."""

    values: pa.Table | None = None
    counts: IntArray | None = None

    def merge(self, other: Seen) -> Seen:
        """Both together."""
        if self.values is not None:
            return Seen(values=merge_values(self.values, other.values))
        assert self.counts is not None
        assert other.counts is not None
        return Seen(counts=self.counts + other.counts)


@dataclass(frozen=True, eq=False)
class Scan:
    """Read ids and attributes of a span: keep the hashes of the ids in `folder`, and count.

    Without labels, the values in the columns `names` are counted; with them, the users of each cell.
    """

    table: Table
    names: tuple[str, ...]
    folder: Path
    labels: Labels | None = None

    def __call__(self, span: Span) -> Seen:
        """What the span brings."""
        total, hashes = None, []
        columns = [self.table.key, *(self.names if self.labels is None else ())]
        for block in self.table.blocks(span, columns, vectors=False):
            hashes.append(hashed(block.columns.column(self.table.key), span.part.path))
            if self.labels is None:
                seen = Seen(values=count_values(block.columns, self.names))
            else:
                cells = self.labels.cells(block.columns, span.part.path)
                seen = Seen(counts=np.bincount(cells, minlength=self.labels.n_cells).astype(np.int64))
            total = seen if total is None else total.merge(seen)
        with write_atomically(self.folder / f"{span.start}.ids") as temporary:
            write_run(temporary, hashes)
        assert total is not None
        return total


def refuse_repeats(table: Table, folder: Path) -> None:
    """An error that names an id that occurs twice and the files it stands in; the hashes are removed."""
    runs = sorted(folder.glob("*.ids"))
    twice = alike_in(runs, table.rows)
    for run in runs:
        run.unlink()
    if not len(twice):
        return
    ids, files = [], []
    for span in table.spans():
        for block in table.blocks(span, [table.key], vectors=False):
            given = block.columns.column(table.key)
            found = given.filter(pa.array(np.isin(hashed(given, span.part.path), twice)))
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
class State:
    """What the first pass brings: the moments of each cell and, where it is asked for, a sketch of its rows."""

    moments: Moments
    sketch: Sketch | None = None

    def merge(self, other: State) -> State:
        """Both together, in any order."""
        both = None if self.sketch is None or other.sketch is None else self.sketch.merge(other.sketch)
        return State(self.moments.merge(other.moments), both)


@dataclass(frozen=True, eq=False)
class Gather:
    """Read the vectors of a span, and gather moments and sketch; `below` are the keys that the sketch holds."""

    table: Table
    labels: Labels
    below: Hashes | None
    seed: int

    def __call__(self, span: Span) -> State:
        """What the span brings."""
        total = None
        for block in self.table.blocks(span, self.labels.columns):
            cells = self.labels.cells(block.columns, span.part.path)
            moments = Moments.of(as_tensor(block.x), torch.from_numpy(cells), self.labels.n_cells)
            if not bool(torch.isfinite(moments.scatter).all()):
                _refuse_infinite(block, span.part, self.table)
            sketch = None if self.below is None else Sketch.of(block.x, cells, block.start, self.below, self.seed)
            state = State(moments, sketch)
            total = state if total is None else total.merge(state)
        assert total is not None
        return total


@dataclass(frozen=True, eq=False)
class Sample:
    """Read the vectors of a span, and keep only the sketch."""

    table: Table
    labels: Labels
    below: Hashes
    seed: int

    def __call__(self, span: Span) -> Sketch:
        """The rows that are kept."""
        total = None
        for block in self.table.blocks(span, self.labels.columns):
            cells = self.labels.cells(block.columns, span.part.path)
            sketch = Sketch.of(block.x, cells, block.start, self.below, self.seed)
            if not np.isfinite(sketch.x).all():
                _refuse_infinite(block, span.part, self.table)
            total = sketch if total is None else total.merge(sketch)
        assert total is not None
        return total


@dataclass(frozen=True)
class Output:
    """A part, and where it goes."""

    part: Part
    path: Path

    @property
    def rows(self) -> int:
        """How many."""
        return self.part.rows


@dataclass(frozen=True, eq=False)
class Write:
    """Carry the rows of a part and write it, unless that was done; reading and carrying may run ahead of writing."""

    table: Table
    labels: Labels
    map: CellMap
    job: str
    overlap: bool

    def __call__(self, output: Output) -> None:
        """Read, carry, write; whole or not at all."""
        if finished(output.path, self.job):
            return
        try:
            with self.table.writing(output.part, output.path, self.job) as write:
                for columns, x in self._moved(output.part):
                    write(columns, x)
        except OSError as error:
            if error.errno != errno.ENOSPC and "No space left" not in str(error):
                raise
            raise DataError(
                f"There is no room left for {output.path}. What was finished is whole and stays; make room, and run "
                "the same command again: it goes on from there."
            ) from error

    def _moved(self, part: Part) -> Iterator[tuple[pa.RecordBatch, NDArray[np.float32]]]:
        names = self.labels.columns if self.table.schema is None else self.table.schema.names
        blocks: Iterator[Block] = self.table.blocks(Span(part, 0, len(part.groups)), names)
        moved = (self._one(block, part) for block in (ahead(blocks) if self.overlap else blocks))
        yield from ahead(moved) if self.overlap else moved

    def _one(self, block: Block, part: Part) -> tuple[pa.RecordBatch, NDArray[np.float32]]:
        return block.columns, apply_cell_map(self.map, block.x, self.labels.cells(block.columns, part.path))


def _refuse_infinite(block: Block, part: Part, table: Table) -> None:
    bad = np.flatnonzero(~np.isfinite(block.x).all(axis=1))
    if not len(bad):
        raise DataError(f"The vectors in {part.path} hold numbers too large to be squared. Scale them down.")
    row = block.start + int(bad[0]) - part.start
    raise DataError(
        f"{len(bad)} of {len(block.x)} vectors from row {block.start - part.start} of {part.path} on hold NaN or "
        f"infinite numbers, the first in row {row}. Remove or mend these rows."
    )
