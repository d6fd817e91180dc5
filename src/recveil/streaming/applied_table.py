"""A saved map applied to a table larger than memory: one pass to compare its users with those of the fit, one to write.

The parts appear whole, under the names they had. The same command after an interruption writes the missing ones.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from recveil.core.outputs import hold_work_folder
from recveil.core.types import UNDISCLOSED, IntArray
from recveil.defenses.embeddings.fitted_maps import FittedMap
from recveil.streaming.block_table import Table
from recveil.streaming.cloaked_table import scan_labels
from recveil.streaming.engines import TaskEngine
from recveil.streaming.jobs import compute_job_id, locate_work_folder, plan_outputs, remove_leftovers
from recveil.streaming.labels import AttributeSource, Labels, check_targets
from recveil.streaming.passes import MeasureTask, WriteTask
from recveil.transport.moments import Moments

__all__ = ["apply_to_table", "count_unknown", "measure_moments"]

MEASURED_USERS = 250_000
"""Users that are enough to compare a table with that of the fit; from twice as many on, not all are measured."""


@dataclass(frozen=True)
class _MapIdentity:
    """What tells a job from one with another map."""

    digest: str


@dataclass(frozen=True, eq=False)
class _SavedCells:
    """A fitted map that carries the rows of each cell of a table.

    Attributes:
        fitted: the map.
        codes: (cells, attributes) class of each attribute, -1 if undisclosed.
    """

    fitted: FittedMap
    codes: IntArray

    def carry_rows(self, x: torch.Tensor, cell: int) -> torch.Tensor:
        """Carry rows of one cell."""
        if (scores := self.fitted.only_scores) is not None:  # single precision throughout
            return scores.blend_rows(x, self.fitted.strength)
        codes = np.tile(self.codes[cell], (len(x), 1))
        return torch.from_numpy(self.fitted(x.numpy(), codes, torch.device("cpu")))


def measure_moments(table: Table, engine: TaskEngine) -> Moments:
    """Measure count, mean and scatter of vectors at equal distances; a vector that is not finite is an error."""
    task = MeasureTask(table, max(1, table.rows // MEASURED_USERS))
    return engine.reduce(task, table.list_spans(), Moments.merge, "comparing users")


def apply_to_table(
    table: Table,
    source: AttributeSource,
    map_path: Path,
    fitted: FittedMap,
    out: Path,
    *,
    n_attributes: int,
    engine: TaskEngine,
    dropped: tuple[str, ...] = (),
) -> tuple[list[int], tuple[str, ...]]:
    """Write the table with its rows carried by the map; an interrupted job resumes.

    Args:
        table: the table.
        source: where the attributes are, with the classes that the map knows; no names if they are not given.
        map_path: file of the map, which is part of the identity of the job.
        fitted: the map.
        out: folder or file to write.
        n_attributes: attributes of the map.
        engine: engine that runs the tasks.
        dropped: columns to leave out.

    Returns:
        The number of users without a known class, for each attribute, and notes on the attributes.

    Raises:
        UsageError: `out` cannot be written, or holds files of another job.
        DataError: the table or its attributes cannot be used.
    """
    if source.names:
        check_targets(table, source)
    identity = _MapIdentity(hashlib.sha256(map_path.read_bytes()).hexdigest())
    job = compute_job_id(table, source, identity, 0, dropped)
    plan_outputs(table, out, job)  # refuses what can be refused before anything is made
    with hold_work_folder(locate_work_folder(table, out), out) as work:
        labels, unknown = Labels((), table.id_column), [table.rows] * n_attributes
        codes = np.full((1, n_attributes), UNDISCLOSED, dtype=np.int64)
        if source.names:
            labels, counts = scan_labels(table, source, engine, work)
            codes, unknown = labels.codes, count_unknown(labels.codes, counts)
        outputs, _ = plan_outputs(table, out, job)
        overlap = len(outputs) < engine.workers
        task = WriteTask(table, labels, _SavedCells(fitted, codes), job, overlap, dropped)
        engine.run_all(task, outputs, "writing")
        remove_leftovers(table, out)
    return unknown, labels.notes


def count_unknown(codes: IntArray, counts: IntArray) -> list[int]:
    """Count the users without a known class, for each attribute.

    Args:
        codes: (cells, attributes) class of each attribute in each cell.
        counts: users of each cell.
    """
    return [int(counts[column < 0].sum()) for column in codes.T]
