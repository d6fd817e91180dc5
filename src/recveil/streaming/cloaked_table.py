"""Defend a table larger than memory: one pass to learn, one to carry every row, written part by part.

1. A look at ids and attributes alone: which classes there are and how many users they have, and that no id is there
   twice (their hashes lie on disk, eight bytes for each row, until that is known).
2. The first pass gathers the moments of each cell of the targets' classes and, for `sliced`, a sketch of its rows.
3. The second pass carries the rows. Each part appears whole, under the name it had, and says which job wrote it: run
   again after an interruption, the same command leaves finished parts alone and writes the others.

While it runs, a hidden folder beside the parts holds the map, which would tell the classes of all users; it is removed
at the end. `gaussian` and `leace` give the numbers that they give in memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from recveil.core.errors import UsageError, unknown_name
from recveil.core.random import make_generator
from recveil.core.timing import Clock
from recveil.core.types import IntArray
from recveil.defenses import DEFENSES
from recveil.defenses.embeddings.cell_maps import CellMap, CellStatistics, StreamingDefense
from recveil.streaming.block_table import Table
from recveil.streaming.engines import Engine, Threads
from recveil.streaming.jobs import clean_up, job_of, load_map, outputs_of, save_map, work_folder
from recveil.streaming.labels import Facts, Labels, labels_of
from recveil.streaming.map_application import measure_displacement
from recveil.streaming.passes import Gather, Scan, Seen, State, Write, refuse_repeats
from recveil.streaming.sketch import limits

__all__ = ["Cloaked", "cloak_table", "examine"]

SKETCH_BYTES = 128 << 20
"""Vectors that the sketch of all cells holds."""

MOMENT_BYTES = 128 << 20
"""What the moments of all cells may take; a few copies of them are in memory at once."""


@dataclass(frozen=True)
class Cloaked:
    """What was done: users of each class, how far they were moved, parts written and found, what it took."""

    rows: int
    d: int
    counts: dict[str, dict[str, int]]
    displacement: float
    written: int
    found: int
    seconds: dict[str, float]
    notes: list[str]


def cloak_table(
    table: Table, facts: Facts, method: Any, out: Path, *, seed: int = 0, engine: Engine | None = None
) -> Cloaked:
    """Write the table with the vectors as the defense leaves them; a run that was cut short is taken up again."""
    if not isinstance(method, StreamingDefense):
        names = ", ".join(traits.name for traits in DEFENSES.all_traits() if traits.streams)
        raise UsageError(f"{type(method).__name__} needs the whole table in memory. Methods for large tables: {names}.")
    engine, clock = engine or Threads(), Clock()
    check_names(table, facts)
    job = job_of(table, facts, method, seed)
    todo, found = outputs_of(table, out, job)
    work = work_folder(table, out)
    kept = load_map(work, job)
    if kept is None:
        with clock.measure_step("look"):
            labels, counts = examine(table, facts, engine, work)
        fitted, about = _learn(table, labels, counts, method, seed, engine=engine, clock=clock)
        save_map(work, job, fitted, about)
    else:
        fitted, about = kept
        labels = _labels_again(table, facts, work)
    with clock.measure_step("write"):
        overlap = len(todo) < engine.workers
        engine.each(Write(table, labels, fitted.to_float32(), job, overlap), todo, "writing")
    clean_up(work, table, out)
    return Cloaked(table.rows, table.d, written=len(todo), found=found, seconds=clock.seconds, **about)


def check_names(table: Table, facts: Facts) -> None:
    """The targets must be named, and be columns of the table where no other is given."""
    if not facts.names:
        known = ", ".join(table.names) if facts.path is None else f"see {facts.path}"
        raise UsageError(f"Name the target of a large table, as in --target gender. Columns: {known}.")
    for name in facts.names if facts.path is None else ():
        if name not in table.names:
            raise unknown_name(f"column in {table.path}", name, table.names)


def examine(table: Table, facts: Facts, engine: Engine, work: Path) -> tuple[Labels, IntArray]:
    """The classes of the targets and how many users each cell has; an id that is there twice is an error."""
    inside = facts.path is None
    labels = None if inside else labels_of(table, facts, None)
    scan = Scan(table, facts.names, work, labels)
    seen = engine.reduce(scan, table.spans(), Seen.merge, "reading ids and attributes")
    refuse_repeats(table, work)
    if labels is not None:
        assert seen.counts is not None
        labels.refuse_strangers(seen.counts, facts)
        return labels, seen.counts
    assert seen.values is not None
    pq.write_table(seen.values, work / "values.parquet")
    labels = labels_of(table, facts, seen.values)
    return labels, labels.count(seen.values)


def _labels_again(table: Table, facts: Facts, work: Path) -> Labels:
    return labels_of(table, facts, None if facts.path is not None else pq.read_table(work / "values.parquet"))


def _learn(
    table: Table, labels: Labels, counts: IntArray, method: StreamingDefense, seed: int, *, engine: Engine, clock: Clock
) -> tuple[CellMap, dict[str, Any]]:
    if labels.n_cells * table.d**2 * 8 > MOMENT_BYTES:
        raise UsageError(
            f"The moments of {labels.n_cells:,} combinations of classes do not fit into memory with vectors of "
            f"{table.d} numbers. Name fewer targets, or merge classes."
        )
    k = _quota(counts, labels.codes, table.d) if method.needs_sample else None
    gather = Gather(table, labels, None if k is None else limits(counts, k), seed)
    with clock.measure_step("learn"):
        state = engine.reduce(gather, table.spans(), State.merge, "learning")
    moments, sketch = state.moments, state.sketch
    del state  # the sketch is most of what is in memory: one copy of it is enough
    pa.default_memory_pool().release_unused()
    with clock.measure_step("fit"):
        sketch = None if k is None or sketch is None else sketch.smallest(k)
        sample = () if sketch is None else (sketch.x, sketch.cells)
        statistics = CellStatistics(moments, labels.codes, *sample)
        fitted, notes = method.fit_cells(statistics, make_generator(seed, "cloak"))
        moved = measure_displacement(fitted, statistics)
    said = labels.class_counts(counts)
    return fitted, {"counts": said, "displacement": moved, "notes": [*labels.notes, *notes]}


def _quota(counts: IntArray, codes: IntArray, d: int) -> IntArray:
    """Rows of each cell that the sketch holds: the same for all that are known, so that none is looked at less."""
    known = (codes >= 0).any(1) & (counts > 0)
    each = SKETCH_BYTES // (4 * d) // max(1, int(known.sum()))
    return np.where(known, np.minimum(counts, each), 0)
