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
from recveil.streaming.engines import TaskEngine, ThreadEngine
from recveil.streaming.jobs import (
    compute_job_id,
    load_cell_map,
    make_work_folder,
    plan_outputs,
    remove_leftovers,
    save_cell_map,
)
from recveil.streaming.labels import AttributeSource, Labels, build_labels
from recveil.streaming.map_application import measure_displacement
from recveil.streaming.passes import CellState, GatherTask, ScanResult, ScanTask, WriteTask, check_unique_ids
from recveil.streaming.sketch import compute_key_limits

__all__ = ["CloakedTable", "cloak_table", "scan_labels"]

SKETCH_BYTES = 128 << 20
"""Vectors that the sketch of all cells holds."""

MOMENT_BYTES = 128 << 20
"""What the moments of all cells may take; a few copies of them are in memory at once."""


@dataclass(frozen=True)
class CloakedTable:
    """What was done: users of each class, how far they were moved, parts written and found, what it took."""

    rows: int
    d: int
    counts: dict[str, dict[str, int]]
    displacement: float
    parts_written: int
    parts_found: int
    seconds: dict[str, float]
    notes: list[str]


def cloak_table(
    table: Table, facts: AttributeSource, method: Any, out: Path, *, seed: int = 0, engine: TaskEngine | None = None
) -> CloakedTable:
    """Write the table with the vectors as the defense leaves them; a run that was cut short is taken up again."""
    if not isinstance(method, StreamingDefense):
        names = ", ".join(traits.name for traits in DEFENSES.all_traits() if traits.streams)
        raise UsageError(f"{type(method).__name__} needs the whole table in memory. Methods for large tables: {names}.")
    engine, clock = engine or ThreadEngine(), Clock()
    check_targets(table, facts)
    job = compute_job_id(table, facts, method, seed)
    todo, found = plan_outputs(table, out, job)
    work = make_work_folder(table, out)
    kept = load_cell_map(work, job)
    if kept is None:
        with clock.measure_step("look"):
            labels, counts = scan_labels(table, facts, engine, work)
        fitted, about = _fit_cell_map(table, labels, counts, method, seed, engine=engine, clock=clock)
        save_cell_map(work, job, fitted, about)
    else:
        fitted, about = kept
        labels = _reload_labels(table, facts, work)
    with clock.measure_step("write"):
        overlap = len(todo) < engine.workers
        engine.run_all(WriteTask(table, labels, fitted.to_float32(), job, overlap), todo, "writing")
    remove_leftovers(work, table, out)
    return CloakedTable(table.rows, table.d, parts_written=len(todo), parts_found=found, seconds=clock.seconds, **about)


def check_targets(table: Table, facts: AttributeSource) -> None:
    """The targets must be named, and be columns of the table where no other is given."""
    if not facts.names:
        known = ", ".join(table.other_columns) if facts.path is None else f"see {facts.path}"
        raise UsageError(f"Name the target of a large table, as in --target gender. Columns: {known}.")
    for name in facts.names if facts.path is None else ():
        if name not in table.other_columns:
            raise unknown_name(f"column in {table.path}", name, table.other_columns)


def scan_labels(table: Table, facts: AttributeSource, engine: TaskEngine, work: Path) -> tuple[Labels, IntArray]:
    """The classes of the targets and how many users each cell has; an id that is there twice is an error."""
    inside = facts.path is None
    labels = None if inside else build_labels(table, facts, None)
    scan = ScanTask(table, facts.names, work, labels)
    seen = engine.reduce(scan, table.list_spans(), ScanResult.merge, "reading ids and attributes")
    check_unique_ids(table, work)
    if labels is not None:
        assert seen.counts is not None
        labels.check_overlap(seen.counts, facts)
        return labels, seen.counts
    assert seen.values is not None
    pq.write_table(seen.values, work / "values.parquet")
    labels = build_labels(table, facts, seen.values)
    return labels, labels.count_cells(seen.values)


def _reload_labels(table: Table, facts: AttributeSource, work: Path) -> Labels:
    return build_labels(table, facts, None if facts.path is not None else pq.read_table(work / "values.parquet"))


def _fit_cell_map(
    table: Table,
    labels: Labels,
    counts: IntArray,
    method: StreamingDefense,
    seed: int,
    *,
    engine: TaskEngine,
    clock: Clock,
) -> tuple[CellMap, dict[str, Any]]:
    if labels.n_cells * table.d**2 * 8 > MOMENT_BYTES:
        raise UsageError(
            f"The moments of {labels.n_cells:,} combinations of classes do not fit into memory with vectors of "
            f"{table.d} numbers. Name fewer targets, or merge classes."
        )
    k = _compute_quota(counts, labels.codes, table.d) if method.needs_sample else None
    gather = GatherTask(table, labels, None if k is None else compute_key_limits(counts, k), seed)
    with clock.measure_step("learn"):
        state = engine.reduce(gather, table.list_spans(), CellState.merge, "learning")
    moments, sketch = state.moments, state.sketch
    del state  # the sketch is most of what is in memory: one copy of it is enough
    pa.default_memory_pool().release_unused()
    with clock.measure_step("fit"):
        sketch = None if k is None or sketch is None else sketch.keep_smallest(k)
        sample = () if sketch is None else (sketch.x, sketch.cells)
        statistics = CellStatistics(moments, labels.codes, *sample)
        fitted, notes = method.fit_cells(statistics, make_generator(seed, "cloak"))
        moved = measure_displacement(fitted, statistics)
    said = labels.count_classes(counts)
    return fitted, {"counts": said, "displacement": moved, "notes": [*labels.notes, *notes]}


def _compute_quota(counts: IntArray, codes: IntArray, d: int) -> IntArray:
    """Rows of each cell that the sketch holds: the same for all that are known, so that none is looked at less."""
    known = (codes >= 0).any(1) & (counts > 0)
    each = SKETCH_BYTES // (4 * d) // max(1, int(known.sum()))
    return np.where(known, np.minimum(counts, each), 0)
