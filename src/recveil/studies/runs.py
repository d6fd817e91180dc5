"""A run of a study: do the cells that are not done yet, and store each as soon as it is there.

tally = run_study(read_plan("plan.toml"), "studies/plan", LocalEngine(workers=2))
"""

from __future__ import annotations

import errno
import os
import platform
import time
import traceback
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Protocol

from recveil.core.errors import RecveilError
from recveil.core.study_parts import StudyProgress
from recveil.studies.cell_results import CellFailure, CellResult, CellTiming
from recveil.studies.cells import Cell
from recveil.studies.engines import local
from recveil.studies.engines.local import Lost
from recveil.studies.plans import Plan
from recveil.studies.store import Store, create_store, describe_plan

__all__ = [
    "DiskFull",
    "Engine",
    "LocalEngine",
    "Outcome",
    "Tally",
    "attempt_cell",
    "name_group",
    "run_cells",
    "run_study",
]

DISK_FULL_ERRORS = (errno.ENOSPC, errno.EDQUOT)


@dataclass(frozen=True)
class DiskFull:
    """The error number of a disk that took no more, and the path that was written."""

    number: int
    path: str


@dataclass(frozen=True, eq=False)
class Outcome:
    """What became of one cell: its result and timing, its failure, or a full disk."""

    result: CellResult | None = None
    timing: CellTiming = field(default_factory=CellTiming)
    failure: CellFailure | None = None
    disk_full: DiskFull | None = None


Work = Callable[[Cell], Outcome]


class Engine(Protocol):
    """Something that runs cells: processes of this machine, or a Ray cluster."""

    @property
    def name(self) -> str:
        """Name of the engine in timings."""

    def run(
        self, work: Work, cells: Sequence[Cell], *, may_start: Callable[[], bool]
    ) -> Generator[tuple[Cell, Outcome | Lost], None, None]:
        """Yield each cell with its outcome as it is finished; start none once `may_start` returns False."""


@dataclass(frozen=True)
class LocalEngine:
    """Processes of this machine, each with one thread."""

    workers: int = 1
    name: str = "local"

    def run(
        self, work: Work, cells: Sequence[Cell], *, may_start: Callable[[], bool]
    ) -> Generator[tuple[Cell, Outcome | Lost], None, None]:
        """Run the cells; those that need the same model go to the same worker."""
        return local.run_items(work, cells, workers=self.workers, group=name_group, may_start=may_start)


@dataclass
class Tally:
    """Cells of a run: in all, finished before it, finished and failed in it; `by_fault` failures nobody foresaw."""

    total: int
    before: int = 0
    done: int = 0
    failed: int = 0
    by_fault: int = 0
    started: float = field(default_factory=time.monotonic)

    @property
    def finished(self) -> int:
        """Cells that are done, now or before."""
        return self.before + self.done

    @property
    def left(self) -> int:
        """Cells that were not tried yet."""
        return self.total - self.before - self.done - self.failed

    @property
    def remaining(self) -> float | None:
        """Seconds to the end at the pace so far; None before the first cell."""
        tried = self.done + self.failed
        return (time.monotonic() - self.started) / tried * self.left if tried else None

    def add(self, outcome: Outcome) -> None:
        """Count one more cell."""
        if outcome.failure is None:
            self.done += 1
        else:
            self.failed += 1
            self.by_fault += not outcome.failure.foreseen

    def to_progress(self, plan: Plan, folder: str | Path) -> StudyProgress:
        """Return the counts as a part of a result."""
        counts = {"cells": self.total, "done": self.finished, "failed": self.failed, "left": self.left}
        return StudyProgress(plan=plan.name, size=plan.size, folder=str(folder), **counts)


def run_study(
    plan: Plan,
    folder: str | Path,
    engine: Engine,
    *,
    work: Callable[[Path, Cell], Outcome] | None = None,
    max_seconds: float = float("inf"),
    on_progress: Callable[[Tally], None] = lambda tally: None,
) -> Tally:
    """Run all cells of the plan that the folder does not hold; failed ones are tried again.

    Args:
        plan: the plan.
        folder: folder of results, made if need be.
        engine: runs the cells.
        work: replaces `attempt_cell`, for cells of another kind; the plan is not checked then.
        max_seconds: no cell is started after so many seconds.
        on_progress: called after each cell.

    Raises:
        UsageError: the plan cannot be run, or another run writes into the folder.
        OSError: the disk is full.
    """
    cells = plan.cells()
    # Checked before a folder is made: a plan that cannot be run leaves none behind.
    if work is None and not {cell.id for cell in cells} <= Store(Path(folder)).finished_ids():
        from recveil.studies.plan_checks import check_plan

        check_plan(plan)
    store = create_store(folder)
    with store.hold_lock():
        finished = store.finished_ids()
        missing = [cell for cell in cells if cell.id not in finished]
        describe_plan(store, plan)
        tally = Tally(len(cells), len(cells) - len(missing))
        end = time.monotonic() + max_seconds
        do_cell = partial(work or attempt_cell, store.releases.absolute())
        outcomes = run_cells(do_cell, missing, engine, store, may_start=lambda: time.monotonic() < end)
        with closing(outcomes):  # however this ends, no process stays behind
            for _, outcome in outcomes:
                tally.add(outcome)
                on_progress(tally)
    return tally


def run_cells(
    work: Work, cells: Sequence[Cell], engine: Engine, store: Store, *, may_start: Callable[[], bool] = lambda: True
) -> Generator[tuple[Cell, Outcome], None, None]:
    """Run these cells and store each; a full disk ends it.

    Args:
        work: makes an outcome of a cell.
        cells: the cells.
        engine: runs the cells.
        store: takes results and failures.
        may_start: whether another cell may be started.
    """
    with closing(engine.run(work, cells, may_start=may_start)) as answers:
        for cell, answer in answers:
            outcome = _report_lost(answer) if isinstance(answer, Lost) else answer
            _store_outcome(store, cell, outcome, engine.name)
            yield cell, outcome


def _store_outcome(store: Store, cell: Cell, outcome: Outcome, engine: str) -> None:
    if outcome.disk_full is not None:
        number = outcome.disk_full.number
        raise OSError(number, os.strerror(number), outcome.disk_full.path)
    if outcome.failure is not None:
        store.write_failure(cell, outcome.failure)
        return
    assert outcome.result is not None
    store.write_cell(outcome.result, outcome.timing.model_copy(update={"engine": engine}))


def attempt_cell(cache: Path, cell: Cell) -> Outcome:
    """Run one cell and return its outcome, whatever happens: the function that every engine runs."""
    from recveil.studies.measurement import run_cell

    start = time.perf_counter()
    try:
        result, steps = run_cell(cell, cache)
    except OSError as error:
        if error.errno in DISK_FULL_ERRORS:
            return Outcome(disk_full=DiskFull(error.errno, str(error.filename or cache)))
        return _report_failure(error)
    except Exception as error:  # noqa: BLE001 - a cell that fails is a hole in a table, not the end of the study
        return _report_failure(error)
    seconds = {**steps, "all": time.perf_counter() - start}
    return Outcome(result, CellTiming(seconds=seconds, machine=_describe_machine(cell)))


def name_group(cell: Cell) -> str:
    """Name the group of a cell: its cells need the same undefended model, or the same parts of the users."""
    model = cell.at.get("model", {})
    return f"{cell.data} {model.get('name')} {model.get('options')} {cell.seed}"


def _describe_machine(cell: Cell) -> dict[str, str | int | None]:
    from recveil.core.device import resolve_device

    return {"host": platform.node(), "cores": os.cpu_count(), "device": resolve_device(cell.device).type}


def _report_failure(error: Exception) -> Outcome:
    foreseen = isinstance(error, RecveilError) and error.exit_code in (2, 3)
    message = f"{type(error).__name__}: {error}"
    return Outcome(failure=CellFailure(error=message, traceback=traceback.format_exc(), foreseen=foreseen))


def _report_lost(lost: Lost) -> Outcome:
    return Outcome(
        failure=CellFailure(error=f"The cell was begun {local.MAX_TRIES} times and each time {lost.reason}.")
    )
