"""Defense of a table larger than memory: one pass to fit, one pass to write, part by part.

1. A scan of ids and attributes finds the classes and their sizes, and makes sure that no id occurs twice (hashes of the
   ids are on disk meanwhile, eight bytes for each row).
2. The first pass gathers the moments of each cell of the targets' classes and, if the defense needs it, a sample of
   its rows.
3. The second pass carries the rows. Each part appears whole, under the name it had, and its footer names the job. The
   same job after an interruption keeps finished parts and writes the others.

While the job runs, a hidden folder beside the parts holds the map, which would disclose the classes of all users; it is
removed at the end. Affine defenses give the same numbers as in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from recveil.core.errors import UsageError
from recveil.core.files import write_atomically
from recveil.core.random import make_generator
from recveil.core.timing import Clock
from recveil.core.types import BoolArray, IntArray
from recveil.defenses import DEFENSES
from recveil.defenses.embeddings.cell_maps import CellMap, CellStatistics, StreamingDefense
from recveil.streaming.block_table import Table
from recveil.streaming.engines import TaskEngine, ThreadEngine
from recveil.streaming.jobs import (
    FitSummary,
    compute_job_id,
    describe_remains,
    load_cell_map,
    locate_work_folder,
    plan_outputs,
    remove_leftovers,
    save_cell_map,
)
from recveil.streaming.labels import AttributeSource, Labels, build_labels, check_targets
from recveil.streaming.map_application import measure_displacement
from recveil.streaming.passes import CellState, GatherTask, ScanResult, ScanTask, WriteTask, check_unique_ids
from recveil.streaming.sketch import compute_key_limits
from recveil.streaming.target_columns import describe_overlap, list_target_columns
from recveil.streaming.vector_layout import check_scale
from recveil.streaming.work_folder import clear_work_folder, explain_full_disk, hold_work_folder
from recveil.transport.moments import Moments

__all__ = ["CloakedTable", "cloak_table", "scan_labels"]

SKETCH_BYTES = 128 << 20
"""Bytes of vectors in the sketch of all cells."""

MOMENT_BYTES = 128 << 20
"""Bytes that the moments of all cells may take; a few copies of them are in memory at once."""

VALUES_NAME = "values.parquet"
"""File in the hidden folder that holds the distinct values of the targets."""

NUMBER_TYPE_NOTE = "The vectors were not 32-bit or 64-bit floats; they are written as 32-bit floats."


@dataclass(frozen=True)
class CloakedTable:
    """Summary of a job.

    Attributes:
        rows: users of the table.
        d: dimensions of the vectors.
        counts: users of each class, by target.
        displacement: how far users were moved, as a share of their distance from the mean.
        parts_written: parts written by this run.
        parts_found: parts that an earlier run had finished.
        seconds: time of each step.
        notes: remarks for the reader of the numbers.
        target_columns: columns of the table that hold a target.
    """

    rows: int
    d: int
    counts: dict[str, dict[str, int]]
    displacement: float
    parts_written: int
    parts_found: int
    seconds: dict[str, float]
    notes: list[str]
    target_columns: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class _JobState:
    """Everything that the second pass needs."""

    labels: Labels
    map: CellMap
    summary: FitSummary


def cloak_table(
    table: Table,
    source: AttributeSource,
    method: Any,
    out: Path,
    *,
    seed: int = 0,
    engine: TaskEngine | None = None,
    keep_target: bool = False,
) -> CloakedTable:
    """Write the table with defended vectors; an interrupted job resumes.

    Args:
        table: the table.
        source: where the attributes are.
        method: the defense.
        out: folder or file to write.
        seed: seed of the defense and of its sample.
        engine: engine that runs the tasks; threads by default.
        keep_target: keep columns of the table that hold a target; anybody can read the classes there.

    Raises:
        UsageError: the defense cannot be fitted from statistics, a target is missing, or another job writes there.
        DataError: the table or its attributes cannot be used.
    """
    _require_streaming(method)
    engine, clock = engine or ThreadEngine(), Clock()
    check_targets(table, source)
    targets = list_target_columns(table.other_columns, source.names)
    job = compute_job_id(table, source, method, seed, dropped := () if keep_target else targets)
    plan_outputs(table, out, job)  # refuses what can be refused before anything is made
    with hold_work_folder(locate_work_folder(table, out), out) as work:
        outputs, parts_found = plan_outputs(table, out, job)  # another job may have ended in the meantime
        state = _resume_or_fit(table, source, method, work, job, seed=seed, engine=engine, clock=clock)
        with clock.measure_step("write"), _explain_interruption(table, out, job):
            overlap = len(outputs) < engine.workers  # threads that have no part of their own help with one
            task = WriteTask(table, state.labels, state.map.to_float32(), job, overlap, dropped)
            engine.run_all(task, outputs, "writing")
        remove_leftovers(table, out)
    return CloakedTable(
        rows=table.rows,
        d=table.d,
        counts=state.summary.counts,
        displacement=state.summary.displacement,
        parts_written=len(outputs),
        parts_found=parts_found,
        seconds=clock.seconds,
        notes=[*state.summary.notes, *([] if table.keeps_number_type else [NUMBER_TYPE_NOTE])],
        target_columns=targets,
    )


def _require_streaming(method: Any) -> None:
    if not isinstance(method, StreamingDefense):
        names = ", ".join(traits.name for traits in DEFENSES.all_traits() if traits.streams)
        raise UsageError(f"{type(method).__name__} needs the whole table in memory. Methods for large tables: {names}.")


@contextmanager
def _explain_interruption(table: Table, out: Path, job: str) -> Iterator[None]:
    """Add to any error within this block what remains of the job."""
    try:
        yield
    except BaseException as error:
        error.add_note(describe_remains(table, out, job))
        raise


def _resume_or_fit(
    table: Table,
    source: AttributeSource,
    method: StreamingDefense,
    work: Path,
    job: str,
    *,
    seed: int,
    engine: TaskEngine,
    clock: Clock,
) -> _JobState:
    """Load what this job saved before it was interrupted, or make it."""
    saved = load_cell_map(work, job)
    if saved is not None:
        return _JobState(_reload_labels(table, source, work), *saved)
    clear_work_folder(work)  # of another job
    with clock.measure_step("look"):
        labels, counts = scan_labels(table, source, engine, work)
    fitted, summary = _fit_cell_map(table, labels, counts, method, seed, engine=engine, clock=clock)
    save_cell_map(work, job, fitted, summary)
    return _JobState(labels, fitted, summary)


def scan_labels(table: Table, source: AttributeSource, engine: TaskEngine, work: Path) -> tuple[Labels, IntArray]:
    """Find the classes of the targets and count the users of each cell.

    Repeated ids are an error.

    Args:
        table: the table.
        source: where the attributes are.
        engine: engine that runs the tasks.
        work: folder for temporary files.

    Returns:
        The labels, and the users of each cell.
    """
    labels = None if source.path is None else build_labels(table, source, None)
    scan = ScanTask(table, source.names, work, labels)
    result = engine.reduce(scan, table.list_spans(), ScanResult.merge, "reading ids and attributes")
    check_unique_ids(table, work, text=labels is not None and labels.lookup is not None and labels.lookup.text)
    if labels is not None:
        assert labels.lookup is not None
        assert source.path is not None
        notes = describe_overlap(result.matched, table.rows, len(labels.lookup.hashes), source.path)
        cells = result.collect_cells()
        counts = np.bincount(cells, minlength=labels.n_cells).astype(np.int64)
        # Two bytes for each row are all that is needed from here on.
        return replace(labels, notes=(*notes, *labels.notes), lookup=None, row_cells=cells), counts
    assert result.values is not None
    path = work / VALUES_NAME
    with explain_full_disk(path), write_atomically(path, private=True) as temporary:
        pq.write_table(result.values, temporary)
    labels = build_labels(table, source, result.values)
    return labels, labels.count_cells(result.values)


def _reload_labels(table: Table, source: AttributeSource, work: Path) -> Labels:
    return build_labels(table, source, None if source.path is not None else pq.read_table(work / VALUES_NAME))


def _fit_cell_map(
    table: Table,
    labels: Labels,
    counts: IntArray,
    method: StreamingDefense,
    seed: int,
    *,
    engine: TaskEngine,
    clock: Clock,
) -> tuple[CellMap, FitSummary]:
    if labels.n_cells * table.d**2 * 8 > MOMENT_BYTES:
        raise UsageError(
            f"The moments of {labels.n_cells:,} combinations of classes do not fit into memory with vectors of "
            f"{table.d} numbers. Name fewer targets, or merge classes."
        )
    is_sampled = np.asarray((labels.codes >= 0).any(1) | method.samples_undisclosed)
    quota = _compute_quota(counts, is_sampled, table.d) if method.needs_sample else None
    gather = GatherTask(table, labels, None if quota is None else compute_key_limits(counts, quota), seed)
    with clock.measure_step("learn"):
        state = engine.reduce(gather, table.list_spans(), CellState.merge, "learning")
    moments, sketch = state.moments, state.sketch
    _check_moments(moments, table)
    del state  # the sketch takes most of the memory: one copy of it is enough
    pa.default_memory_pool().release_unused()
    with clock.measure_step("fit"):
        sketch = None if quota is None or sketch is None else sketch.keep_smallest(quota)
        sample = () if sketch is None else (sketch.x, sketch.cells)
        statistics = CellStatistics(moments, labels.codes, *sample)
        fitted, notes = method.fit_cells(statistics, make_generator(seed, "cloak"))
        displacement = measure_displacement(fitted, statistics)
    return fitted, FitSummary(labels.count_classes(counts), displacement, [*labels.notes, *notes])


def _check_moments(moments: Moments, table: Table) -> None:
    """Refuse vectors whose scale cannot be computed with; a few large numbers among many are found too."""
    pooled = moments.pool_classes()
    variance = pooled.covariance[0].diagonal().clamp(min=0)
    largest = float((pooled.mean[0].square() + variance).max()) ** 0.5
    check_scale(largest, float(variance.max()) ** 0.5, table.path)


def _compute_quota(counts: IntArray, is_sampled: BoolArray, d: int) -> IntArray:
    """Compute the rows of each cell in the sketch.

    All sampled cells get the same quota, so that none is sampled less than another.
    """
    held = is_sampled & (counts > 0)
    each = SKETCH_BYTES // (4 * d) // max(1, int(held.sum()))
    return np.where(held, np.minimum(counts, each), 0)
