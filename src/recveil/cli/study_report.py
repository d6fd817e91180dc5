"""The commands `recveil study report` and `recveil study reproduction`."""

from __future__ import annotations

from dataclasses import dataclass
from os.path import relpath
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from recveil.cli.options import Json, Quiet, takes
from recveil.cli.output import emit_json, print_line, print_page, read_command_line
from recveil.cli.study import ResultFolder, app
from recveil.core.errors import UsageError

if TYPE_CHECKING:
    from recveil.core.results import StudyResult

__all__ = ["app"]


@dataclass(frozen=True, kw_only=True)
class ReportOptions:
    """Options of `recveil study report`."""

    folder: ResultFolder
    out: Annotated[Path | None, typer.Option(help="File to write; standard output by default.")] = None
    form: Annotated[
        str | None, typer.Option("--format", help="Format: html, md, latex or csv; by the file's ending by default.")
    ] = None
    figures: Annotated[Path | None, typer.Option(help="Folder for the charts, one SVG file each.")] = None
    as_json: Json = False
    quiet: Quiet = False

    @property
    def is_silent(self) -> bool:
        """Whether nothing is printed for people."""
        return self.quiet or self.as_json


@app.command("report")
@takes(ReportOptions)
def report(options: ReportOptions) -> None:
    """Write tables, frontiers, wins and advice of a study.

    A study that is not finished is reported as far as it was run; failed cells are holes in the tables.

    Example: recveil study report studies/raid2025_table2 --out report.html
    """
    from recveil.core.outputs import check_outputs, hold_outputs
    from recveil.report.study_page import form_of
    from recveil.studies.store import OWN_NAMES, STUDY_FILE, open_store
    from recveil.studies.study_result import build_study_result

    form = options.form or form_of(options.out)
    figure = options.figures and options.figures / "figure.svg"
    own_files = [("study", options.folder / name) for name in (STUDY_FILE, *OWN_NAMES)]
    check_outputs({"out": options.out, "figures": figure}, own_files)
    result = build_study_result(open_store(options.folder), read_command_line())
    with hold_outputs(options.out):
        _write_outputs(result, options, form)


def _write_outputs(result: StudyResult, options: ReportOptions, form: str) -> None:
    """Write figures and report, and print what is to be printed."""
    from recveil.report.study_page import write_figures, write_study

    if options.figures is not None:
        base = options.out.parent if options.out is not None else Path()
        drawn = write_figures(result, options.figures)
        placed = [figure.model_copy(update={"path": Path(relpath(figure.path, base)).as_posix()}) for figure in drawn]
        result = result.model_copy(update={"figures": placed})
    emit_json(result, as_json=options.as_json)
    if options.out is None and options.as_json:
        return
    text = write_study(result, options.out, form)
    if options.out is None:
        print_page(text)
        return
    for line in (*result.advice, *(f"Figure: {figure.path}" for figure in result.figures), f"Report: {options.out}"):
        print_line(line, silent=options.is_silent)


@dataclass(frozen=True, kw_only=True)
class ReproductionOptions:
    """Options of `recveil study reproduction`."""

    plans: Annotated[Path, typer.Argument(help="Folder of plans with published numbers.")]
    results: Annotated[Path, typer.Option(help="Folder that holds the folders of results.")]
    paper: Annotated[str, typer.Option(help="Paper, as its plans begin, such as raid2025; all by default.")] = ""
    earlier: Annotated[
        list[str] | None,
        typer.Option(help="RUN=PAGE: earlier page, for numbers that the results lack; repeatable, first match counts."),
    ] = None
    as_json: Json = False


@app.command("reproduction")
@takes(ReproductionOptions)
def reproduction(options: ReproductionOptions) -> None:
    """Compare published numbers with ours, as Markdown.

    Example: recveil study reproduction research/plans --results studies --paper raid2025 > raid2025.md
    """
    from recveil.studies.reproduction import write_reproduction

    earlier = dict(_split_earlier(entry) for entry in options.earlier or [])
    page, numbers = write_reproduction(options.plans, options.results, options.paper, earlier)
    emit_json([number.to_result().model_dump(mode="json") for number in numbers], as_json=options.as_json)
    if not options.as_json:
        print_page(page)


def _split_earlier(entry: str) -> tuple[str, str]:
    run, sign, page = entry.partition("=")
    if not (run and sign and page):
        raise UsageError(f"--earlier is '{entry}'. Give a name of the run and its page, such as 2026-11-17=old.md.")
    return run, page
