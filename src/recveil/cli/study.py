"""The commands `recveil study run`, `show` and `diff`."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from recveil.cli.options import Json, Quiet, takes
from recveil.cli.output import emit_json, print_line
from recveil.cli.terminal import has_terminal
from recveil.core.errors import DataError, RecveilError, unknown_name

if TYPE_CHECKING:
    from recveil.core.study_parts import ComparisonRow
    from recveil.studies.plans import Plan
    from recveil.studies.runs import Engine, Tally
    from recveil.studies.store import Store

__all__ = ["EngineOptions", "app", "make_engine", "print_table"]

app = typer.Typer(help="Run and compare many trainings, defenses and attacks.", no_args_is_help=True)

Size = Annotated[str, typer.Option(help="Size of the plan: full, or smoke (as small as its [smoke] makes it).")]
OutputFolder = Annotated[Path | None, typer.Option(help="Folder of results; studies/NAME by default.")]
ResultFolder = Annotated[Path, typer.Argument(help="Folder of results.")]

PROGRESS_SECONDS = 10.0
"""Seconds between two lines of progress where there is no terminal to draw on."""

REDRAW_SECONDS = 0.2
"""Seconds between two drawings of the progress on a terminal."""

MAX_FAILURES_SHOWN = 5


@dataclass(frozen=True, kw_only=True)
class EngineOptions:
    """Options that say which engine runs the cells."""

    engine: Annotated[str, typer.Option(help="Engine: local (processes of this machine) or ray (a cluster).")] = "local"
    workers: Annotated[
        int | None, typer.Option(help="Processes of the local engine; one per core by default.", min=1)
    ] = None
    address: Annotated[str | None, typer.Option(help="Ray cluster; this machine by default.")] = None


@dataclass(frozen=True, kw_only=True)
class RunOptions(EngineOptions):
    """Options of `recveil study run`."""

    plan: Annotated[Path, typer.Argument(help="Plan, a TOML file; see research/plans/ for examples.")]
    size: Size = "full"
    out: OutputFolder = None
    gpus: Annotated[float, typer.Option(help="Share of a GPU that one cell takes on Ray, such as 0.1.", min=0.0)] = 0.0
    limit: Annotated[float | None, typer.Option(help="Seconds after which no cell is started.", min=0.0)] = None
    as_json: Json = False
    quiet: Quiet = False


@app.command("run")
@takes(RunOptions)
def run(options: RunOptions) -> None:
    """Run the cells of a plan that are not done yet.

    Stop it at any time, and run it again to go on.

    Example: recveil study run research/plans/raid2025_table2.toml --size smoke --out study
    """
    from recveil.studies.plans import read_plan
    from recveil.studies.runs import run_study

    plan = read_plan(options.plan, options.size)
    folder = options.out or _default_folder(plan)
    tally = run_study(
        plan,
        folder,
        make_engine(options, gpus=options.gpus),
        max_seconds=float("inf") if options.limit is None else options.limit,
        on_progress=_make_progress_printer(quiet=options.quiet),
    )
    emit_json(tally.to_progress(plan, folder), as_json=options.as_json)
    left = f", {tally.left} left: run again to go on" if tally.left else ""
    line = f"{tally.finished} of {tally.total} cells are done{left}. Results: {folder}"
    print_line(line, silent=options.quiet or options.as_json)
    if tally.failed:
        raise _make_failure_error(tally, folder)


@dataclass(frozen=True, kw_only=True)
class ShowOptions:
    """Options of `recveil study show`."""

    study: Annotated[Path, typer.Argument(help="Folder of results, or a plan.")]
    size: Size = "full"
    out: OutputFolder = None
    as_json: Json = False


@app.command("show")
@takes(ShowOptions)
def show(options: ShowOptions) -> None:
    """Show how far a study is, by data set, model and defense.

    Example: recveil study show studies/raid2025_table2
    """
    from recveil.studies.overview import count_cells

    plan, store = _open_study(options)
    overview = count_cells(plan, store)
    emit_json(overview, as_json=options.as_json)
    if options.as_json:
        return
    print_line(f"{overview.title} ({overview.size}): {overview.cells} cells, {overview.done} done", silent=False)
    head = ["data", "model", "defense", "done", "failed", "missing"]
    print_table(head, [[r.data, r.model, r.defense, r.done, r.failed, r.missing] for r in overview.rows])
    for cell_id in overview.failures[:MAX_FAILURES_SHOWN]:
        assert store is not None  # nothing fails where nothing was run
        print_line(f"failed  {cell_id}  {store.read_failure(cell_id).error}", silent=False)
    if overview.unplanned:
        print_line(f"{overview.unplanned} finished cells in the folder are not of this plan.", silent=False)


@dataclass(frozen=True, kw_only=True)
class DiffOptions:
    """Options of `recveil study diff`."""

    first: ResultFolder
    second: ResultFolder
    as_json: Json = False


@app.command("diff")
@takes(DiffOptions)
def diff(options: DiffOptions) -> None:
    """Compare two folders of results, cell by cell.

    Differences are second less first, with paired intervals; a star marks one whose 95 % interval excludes zero.

    Example: recveil study diff studies/mine studies/mine-2
    """
    from recveil.studies.store import open_store
    from recveil.studies.store_comparison import compare_stores

    comparison = compare_stores(open_store(options.first), open_store(options.second))
    emit_json(comparison, as_json=options.as_json)
    if options.as_json:
        return
    print_line(f"{comparison.paired} cells in both, {comparison.equal} of them equal in every number.", silent=False)
    for count, folder in ((comparison.only_first, options.first), (comparison.only_second, options.second)):
        if count:
            print_line(f"{count} cells in {folder} alone.", silent=False)
    head = ["cell", "target", "metric", "first", "second", "difference", ""]
    print_table(head, [[row.cell, row.target, row.metric, *_format_comparison(row)] for row in comparison.rows])


def make_engine(options: EngineOptions, *, gpus: float = 0.0) -> Engine:
    """Make the engine that the options name; `gpus` is the share of a GPU that one cell takes on Ray."""
    from recveil.studies.engines.ray import RayEngine
    from recveil.studies.runs import LocalEngine

    if options.engine == "ray":
        return RayEngine(options.address, gpus)
    if options.engine != "local":
        raise unknown_name("engine", options.engine, ("local", "ray"))
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count()
    return LocalEngine(options.workers or cores or 1)


def print_table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print columns that are aligned."""
    texts = [list(head), *([str(value) for value in row] for row in rows)]
    widths = [max(len(row[i]) for row in texts) for i in range(len(head))]
    for row in texts:
        line = "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True))
        print_line(line.rstrip(), silent=False)


def _format_comparison(row: ComparisonRow) -> list[str]:
    gap = row.difference
    interval = "" if gap.low != gap.low else f" [{gap.low:+.4f}, {gap.high:+.4f}]"
    sides = [f"{side.value:.4f}" for side in (row.first, row.second)]
    return [*sides, f"{gap.value:+.4f}{interval}", "*" if row.differs else ""]


def _default_folder(plan: Plan) -> Path:
    """Return a folder for each size of a plan: smoke results are no results."""
    return Path("studies") / (plan.name if plan.size == "full" else f"{plan.name}-{plan.size}")


def _open_study(options: ShowOptions) -> tuple[Plan, Store | None]:
    """Open the plan and its results, from either."""
    from recveil.studies.plans import read_plan
    from recveil.studies.store import open_store

    if options.study.is_dir():
        store = open_store(options.study)
        return store.read_plan(), store
    plan = read_plan(options.study, options.size)
    folder = options.out or _default_folder(plan)
    return plan, open_store(folder) if folder.is_dir() else None


def _make_failure_error(tally: Tally, folder: Path) -> RecveilError:
    message = f"{tally.failed} of {tally.total} cells failed; their errors are in {folder / 'failures'}."
    if tally.by_fault:
        return RecveilError(f"{message} {tally.by_fault} of them are a fault of recveil or of the machine.")
    return DataError(f"{message} Correct the plan or the data and run it again.")


def _make_progress_printer(*, quiet: bool) -> Callable[[Tally], None]:
    """Make a function that prints now and then on stderr how many cells are done and how long it will take."""
    last_time = time.monotonic()
    is_terminal = has_terminal()

    def print_progress(tally: Tally) -> None:
        nonlocal last_time
        now = time.monotonic()
        if quiet or (now - last_time < (REDRAW_SECONDS if is_terminal else PROGRESS_SECONDS) and tally.left):
            return
        last_time = now
        failed = f", {tally.failed} failed" if tally.failed else ""
        rest = f", about {_format_seconds(tally.remaining)} left" if tally.left and tally.remaining is not None else ""
        line = f"{tally.finished} of {tally.total} cells{failed}{rest}"
        start, end = ("\r\x1b[2K", "" if tally.left else "\n") if is_terminal else ("", "\n")
        if sys.stderr is not None:
            sys.stderr.write(f"{start}recveil: {line}{end}")  # numbers alone, so nothing to escape
            sys.stderr.flush()

    return print_progress


def _format_seconds(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
