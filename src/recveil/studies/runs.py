"""A plan and a folder: do the cells that are not done yet, keep each as soon as it is there.

done = run_study(read("plan.toml"), "studies/plan", Local(workers=2))
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
from typing import Any, Protocol

from recveil.core.errors import RecveilError
from recveil.studies.engines import local
from recveil.studies.engines.local import Lost
from recveil.studies.plans import Cell, Plan
from recveil.studies.store import Store, create_store, describe_plan

__all__ = ["Engine", "LocalEngine", "Outcome", "Tally", "attempt_cell", "name_group", "run_cells", "run_study"]

DISK_FULL_ERRORS = (errno.ENOSPC, errno.EDQUOT)


@dataclass(frozen=True, eq=False)
class Outcome:
    """What became of one cell: its content and seconds, or what went wrong; `refused` is a disk that is full."""

    content: dict[str, Any] | None = None
    timing: dict[str, Any] = field(default_factory=dict)
    failure: dict[str, Any] | None = None
    refused: tuple[int, str] | None = None


Work = Callable[[Cell], Outcome]


class Engine(Protocol):
    """Who does the work: processes of this machine, or a Ray cluster."""

    @property
    def name(self) -> str:
        """What timings call it."""

    def run(
        self, work: Work, cells: Sequence[Cell], *, go_on: Callable[[], bool]
    ) -> Generator[tuple[Cell, Outcome | Lost], None, None]:
        """Each cell with what became of it, as they are finished."""


@dataclass(frozen=True)
class LocalEngine:
    """Processes of this machine, each with one thread."""

    workers: int = 1
    name: str = "local"

    def run(
        self, work: Work, cells: Sequence[Cell], *, go_on: Callable[[], bool]
    ) -> Generator[tuple[Cell, Outcome | Lost], None, None]:
        """Each cell with what became of it, as they are finished."""
        return local.run_items(work, cells, workers=self.workers, group=name_group, go_on=go_on)


@dataclass
class Tally:
    """How far a study is; `by_fault` counts the failures that nobody foresaw."""

    total: int
    before: int = 0
    done: int = 0
    failed: int = 0
    by_fault: int = 0
    started: float = field(default_factory=time.monotonic)

    @property
    def left(self) -> int:
        """Cells that were not tried yet."""
        return self.total - self.before - self.done - self.failed

    @property
    def remaining(self) -> float | None:
        """Seconds until the end, if what is left is like what was done; None before anything was."""
        tried = self.done + self.failed
        return (time.monotonic() - self.started) / tried * self.left if tried else None

    def to_dict(self) -> dict[str, int]:
        """For JSON."""
        return {"cells": self.total, "done": self.before + self.done, "failed": self.failed, "left": self.left}


def run_study(
    plan: Plan,
    folder: str | Path,
    engine: Engine,
    *,
    work: Callable[[Path, Cell], Outcome] | None = None,
    limit: float = float("inf"),
    heard: Callable[[Tally], None] = lambda tally: None,
) -> Tally:
    """Do all cells of the plan that the folder does not hold; failed ones are tried again.

    Nothing is begun after `limit` seconds. `heard` is told of every cell. `work` stands in for `attempt`, for whoever
    has cells of another kind; nothing is checked then.
    """
    cells = plan.cells()
    wanted = {cell.id for cell in cells}
    if (
        work is None and not wanted <= Store(Path(folder)).finished_ids()
    ):  # before a folder is made: some plans cannot be run
        from recveil.studies.plan_checks import check_plan

        check_plan(plan)
    store = create_store(folder, plan)
    with store.hold_lock():
        finished = store.finished_ids()
        missing = [cell for cell in cells if cell.id not in finished]
        describe_plan(store, plan)
        tally = Tally(len(cells), len(cells) - len(missing))
        end = time.monotonic() + limit
        doing = partial(work or attempt_cell, store.releases.absolute())
        going = run_cells(doing, missing, engine, store, go_on=lambda: time.monotonic() < end)
        with closing(going):  # however this ends, no process is left behind
            for _, outcome in going:
                if outcome.failure is None:
                    tally.done += 1
                else:
                    tally.failed += 1
                    tally.by_fault += not outcome.failure["foreseen"]
                heard(tally)
    return tally


def run_cells(
    work: Work, cells: Sequence[Cell], engine: Engine, store: Store, *, go_on: Callable[[], bool] = lambda: True
) -> Generator[tuple[Cell, Outcome], None, None]:
    """Do these cells and keep each in the store; a full disk ends it."""
    with closing(engine.run(work, cells, go_on=go_on)) as found:
        for cell, what in found:
            outcome = _report_lost(cell, what) if isinstance(what, Lost) else what
            _store_outcome(store, cell, outcome, engine.name)
            yield cell, outcome


def _store_outcome(store: Store, cell: Cell, outcome: Outcome, engine: str) -> None:
    if outcome.refused is not None:
        code, place = outcome.refused
        raise OSError(code, os.strerror(code), place)
    if outcome.failure is not None:
        store.write_failure(cell.id, outcome.failure)
        return
    assert outcome.content is not None
    store.write_cell(cell.id, outcome.content, {**outcome.timing, "engine": engine})


def attempt_cell(cache: Path, cell: Cell) -> Outcome:
    """Run one cell and say how it went, whatever happens in it: the function that every engine runs."""
    from recveil.studies.cells import run_cell

    start = time.perf_counter()
    try:
        result = run_cell(cell, cache)
    except OSError as error:
        if error.errno in DISK_FULL_ERRORS:
            return Outcome(refused=(error.errno, str(error.filename or cache)))
        return _report_failure(cell, error)
    except Exception as error:  # noqa: BLE001 - a cell that fails is a hole in a table, not the end of the study
        return _report_failure(cell, error)
    seconds = {**result.seconds, "all": time.perf_counter() - start}
    return Outcome(dict(result.content), {"seconds": seconds, "machine": _describe_machine(cell)})


def name_group(cell: Cell) -> str:
    """Cells of one group need the same undefended model, or the same users dealt alike."""
    model = cell.at.get("model", {})
    return f"{cell.at['data']} {model.get('name')} {model.get('options')} {cell.at['seed']}"


def _describe_machine(cell: Cell) -> dict[str, Any]:
    from recveil.core.device import resolve

    return {"host": platform.node(), "cores": os.cpu_count(), "device": resolve(cell.device).type}


def _report_failure(cell: Cell, error: Exception) -> Outcome:
    foreseen = isinstance(error, RecveilError) and error.exit_code in (2, 3)
    told = {"error": f"{type(error).__name__}: {error}", "traceback": traceback.format_exc(), "foreseen": foreseen}
    return Outcome(failure={"cell": cell.to_dict(), **told})


def _report_lost(cell: Cell, lost: Lost) -> Outcome:
    told = {"error": f"The cell was begun {local.MAX_TRIES} times and each time {lost.reason}.", "traceback": ""}
    return Outcome(failure={"cell": cell.to_dict(), **told, "foreseen": False})
