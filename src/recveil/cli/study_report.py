"""The commands `recveil study report` and `recveil study reproduction`."""

from __future__ import annotations

import sys
from os.path import relpath
from pathlib import Path
from typing import Annotated

import typer

from recveil.cli.options import Json, Quiet
from recveil.cli.output import emit_json, guarded, print_line
from recveil.cli.study import app

__all__ = ["app"]


@app.command("report")
@guarded
def report(
    folder: Annotated[Path, typer.Argument(help="A folder of results.")],
    out: Annotated[Path | None, typer.Option(help="File to write; standard output if not given.")] = None,
    form: Annotated[str, typer.Option("--format", help="html, md, latex or csv.")] = "html",
    figures: Annotated[Path | None, typer.Option(help="Folder for the charts, an SVG file each.")] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Tables, frontiers, wins, time and advice of a study, as far as it was run; what failed is shown as a hole.

    Example: recveil study report studies/raid2025_table2 --out report.html
    """
    from recveil.core.files import check_output_file
    from recveil.report.study_page import write_figures, write_study
    from recveil.studies.store import open_store
    from recveil.studies.tables import build_study_result

    for path in (out, figures and figures / "figure.svg"):
        if path is not None:
            check_output_file(path)
    argv = ["recveil", "study", "report", str(folder), *(["--format", form] if form != "html" else [])]
    argv += [*(["--out", str(out)] if out else []), *(["--figures", str(figures)] if figures else [])]
    document = build_study_result(open_store(folder), argv)
    drawn = write_figures(document, figures) if figures is not None else []
    beside = out.parent if out is not None else Path()
    document["figures"] = [{**one, "path": Path(relpath(one["path"], beside)).as_posix()} for one in drawn]
    emit_json(document, as_json=as_json)
    if out is None and as_json:
        return
    made = write_study(document, out, form)
    if out is None:
        sys.stdout.write(made)
        return
    for line in document["advice"]:
        print_line(line, silent=quiet or as_json)
    for one in drawn:
        print_line(f"Figure: {one['path']}", silent=quiet or as_json)
    print_line(f"Report: {out}", silent=quiet or as_json)


@app.command("reproduction")
@guarded
def reproduction(
    papers: Annotated[Path, typer.Argument(help="Folder of plans with published numbers.")],
    results: Annotated[Path, typer.Option(help="Folder that holds the folders of results.")],
    paper: Annotated[str, typer.Option(help="One paper, as its plans begin: raid2025; all if not given.")] = "",
    as_json: Json = False,
) -> None:
    """Each published number beside ours, with a verdict, as a Markdown page on standard output.

    Example: recveil study reproduction research/plans --results studies --paper raid2025 > raid2025.md
    """
    from recveil.studies.reproduction import write_reproduction as compared

    page, rows = compared(papers, results, paper)
    emit_json([row.to_dict() for row in rows], as_json=as_json)
    if not as_json:
        sys.stdout.write(page)
