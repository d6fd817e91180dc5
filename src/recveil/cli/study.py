"""The command `recveil study`: reads its arguments, calls one function, prints."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from recveil.cli.options import Json, Quiet
from recveil.cli.output import emit_json, guarded, print_line
from recveil.core.errors import DataError, RecveilError, unknown_name

if TYPE_CHECKING:
    from recveil.studies.plans import Plan
    from recveil.studies.runs import Engine, Tally
    from recveil.studies.store import Store

__all__ = ["app", "make_engine"]

app = typer.Typer(
    help="Studies: a plan of many trainings, defenses and attacks, run and compared.", no_args_is_help=True
)

Size = Annotated[str, typer.Option(help="full, or smoke: as small as the plan's [smoke] makes it.")]
PlanFile = Annotated[Path, typer.Argument(help="The plan, a TOML file; see research/plans/ for examples.")]
PROGRESS_SECONDS = 10.0
"""Seconds between two lines of progress where there is no terminal to draw a bar on."""


@app.command("run")
@guarded
def run(
    plan: PlanFile,
    size: Size = "full",
    out: Annotated[Path | None, typer.Option(help="Folder of results; studies/NAME if not given.")] = None,
    engine: Annotated[str, typer.Option(help="local (processes of this machine) or ray (a cluster).")] = "local",
    workers: Annotated[
        int | None, typer.Option(help="Processes of the local engine; the cores if not given.", min=1)
    ] = None,
    address: Annotated[str | None, typer.Option(help="Ray cluster to use; this machine if not given.")] = None,
    gpus: Annotated[float, typer.Option(help="Share of a GPU that one cell takes on Ray, as in 0.1.", min=0.0)] = 0.0,
    limit: Annotated[float | None, typer.Option(help="Begin no cell after so many seconds.", min=0.0)] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Do all cells of a plan that are not done yet. Stop it whenever you like, and run it again to go on.

    Example: recveil study run research/plans/raid2025_table2.toml --size smoke --out study
    """
    from recveil.studies.plans import read_plan
    from recveil.studies.runs import run_study

    chosen = read_plan(plan, size)
    folder = out or _default_folder(chosen)
    tally = run_study(
        chosen,
        folder,
        make_engine(engine, workers, address, gpus),
        limit=float("inf") if limit is None else limit,
        heard=_print_progress(quiet=quiet),
    )
    emit_json({**tally.to_dict(), "plan": chosen.name, "size": chosen.size, "folder": str(folder)}, as_json=as_json)
    left = f", {tally.left} left: run again to go on" if tally.left else ""
    print_line(
        f"{tally.before + tally.done} of {tally.total} cells are done{left}. Results: {folder}", silent=quiet or as_json
    )
    if tally.failed:
        raise _report_failures(tally, folder)


@app.command("show")
@guarded
def show(
    where: Annotated[Path, typer.Argument(help="A folder of results, or a plan.")],
    size: Size = "full",
    out: Annotated[Path | None, typer.Option(help="Folder of results of the plan; studies/NAME if not given.")] = None,
    as_json: Json = False,
) -> None:
    """How far a study is: cells done, failed and missing, by data set, model and defense."""
    from recveil.studies.overview import count_cells

    plan, store = _open_study(where, size, out)
    found = count_cells(plan, store)
    emit_json(found, as_json=as_json)
    if as_json:
        return
    print_line(f"{found['title']} ({found['size']}): {found['cells']} cells, {found['done']} done", silent=False)
    rows = [[row[key] for key in ("data", "model", "defense", "done", "failed", "missing")] for row in found["rows"]]
    _print_table(["data", "model", "defense", "done", "failed", "missing"], rows)
    for cell in found["failures"][:5] if store is not None else []:
        print_line(f"failed  {cell}  {store.read_failure(cell)['error']}", silent=False)  # type: ignore[union-attr]
    if found["elsewhere"]:
        print_line(f"{found['elsewhere']} finished cells in the folder are not of this plan.", silent=False)


@app.command("diff")
@guarded
def diff(
    first: Annotated[Path, typer.Argument(help="A folder of results.")],
    second: Annotated[Path, typer.Argument(help="Another one.")],
    as_json: Json = False,
) -> None:
    """Compare two folders of results, cell by cell, with paired intervals: second less first.

    A star marks a difference whose 95 % interval leaves out zero.
    """
    from recveil.studies.comparison import compare_stores
    from recveil.studies.store import open_store

    found = compare_stores(open_store(first), open_store(second))
    emit_json(found, as_json=as_json)
    if as_json:
        return
    print_line(f"{found['paired']} cells in both, {found['equal']} of them equal in every number.", silent=False)
    for key, folder in (("only_first", first), ("only_second", second)):
        if found[key]:
            print_line(f"{found[key]} cells in {folder} alone.", silent=False)
    rows = [[row["cell"], row["target"], row["metric"], *_format_comparison(row)] for row in found["rows"]]
    _print_table(["cell", "of", "metric", "first", "second", "difference", ""], rows)


def _format_comparison(row: dict[str, Any]) -> list[str]:
    gap = row["difference"]
    span = "" if gap["low"] is None else f" [{gap['low']:+.4f}, {gap['high']:+.4f}]"
    sides = [f"{row[side]['value']:.4f}" for side in ("first", "second")]
    return [*sides, f"{gap['value']:+.4f}{span}", "*" if row["differs"] else ""]


def _default_folder(plan: Plan) -> Path:
    """Where results go: apart for each size, for smoke results are no results."""
    return Path("studies") / (plan.name if plan.size == "full" else f"{plan.name}-{plan.size}")


def make_engine(name: str, workers: int | None, address: str | None, gpus: float) -> Engine:
    """The engine of this name: processes of this machine, or a Ray cluster."""
    from recveil.studies.engines.ray import RayEngine
    from recveil.studies.runs import LocalEngine

    if name == "ray":
        return RayEngine(address, gpus)
    if name != "local":
        raise unknown_name("engine", name, ("local", "ray"))
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return LocalEngine(workers or cores or 1)


def _open_study(where: Path, size: str, out: Path | None) -> tuple[Plan, Store | None]:
    """The plan and its results, from either."""
    from recveil.studies.plans import read_plan
    from recveil.studies.store import open_store

    if where.is_dir():
        store = open_store(where)
        return store.read_plan(), store
    plan = read_plan(where, size)
    folder = out or _default_folder(plan)
    return plan, open_store(folder) if folder.is_dir() else None


def _report_failures(tally: Tally, folder: Path) -> RecveilError:
    told = f"{tally.failed} of {tally.total} cells failed; what went wrong is in {folder / 'failures'}."
    if tally.by_fault:
        return RecveilError(
            f"{told} {tally.by_fault} of them by an error that is a fault of recveil or of the machine."
        )
    return DataError(f"{told} Mend the plan or the data and run it again.")


def _print_progress(*, quiet: bool) -> Callable[[Tally], None]:
    """A line on stderr now and then: how many cells are done, and for how long it will go on."""
    last = [time.monotonic()]
    drawn = sys.stderr.isatty()

    def heard(tally: Tally) -> None:
        now = time.monotonic()
        if quiet or (now - last[0] < (0.2 if drawn else PROGRESS_SECONDS) and tally.left):
            return
        last[0] = now
        bad = f", {tally.failed} failed" if tally.failed else ""
        rest = f", about {_format_seconds(tally.remaining)} left" if tally.left and tally.remaining is not None else ""
        line = f"{tally.before + tally.done} of {tally.total} cells{bad}{rest}"
        start, end = ("\r\x1b[2K", "" if tally.left else "\n") if drawn else ("", "\n")
        sys.stderr.write(f"{start}recveil: {line}{end}")
        sys.stderr.flush()

    return heard


def _format_seconds(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _print_table(head: list[str], rows: list[list[Any]]) -> None:
    """Columns that stand under each other."""
    texts = [head, *([str(value) for value in row] for row in rows)]
    widths = [max(len(row[i]) for row in texts) for i in range(len(head))]
    for row in texts:
        print_line("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip(), silent=False)
