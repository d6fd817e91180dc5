"""The page of a study: conclusions, frontiers, tables with holes, heat maps of membership."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from recveil.core.errors import UsageError, unknown_name
from recveil.core.files import write_atomically
from recveil.core.results import StudyResult
from recveil.core.study_parts import (
    Figure,
    HeatMap,
    StudyFrontier,
    StudyFrontierPoint,
    StudyTable,
    TableColumn,
    TableValue,
)
from recveil.core.types import Estimate
from recveil.report.charts import draw_file
from recveil.report.figures import HeatPlot, HeatSquare, MethodPoint, Plot, TradeoffPlot
from recveil.report.formatting import (
    ShownEstimate,
    finite_or_none,
    format_command,
    format_count,
    format_estimate,
    format_number,
    format_text,
    redact_sentence,
)
from recveil.report.page_parts import Term
from recveil.report.study_text import format_cell, list_contest_tables, write_csv, write_latex, write_markdown

__all__ = [
    "FORMS",
    "GridRow",
    "GridTable",
    "StudyPage",
    "build_grid_table",
    "build_study_page",
    "describe_study",
    "form_of",
    "write_figures",
    "write_study",
]

FORMS = {"html": (".html", ".htm"), "md": (".md", ".markdown"), "latex": (".tex",), "csv": (".csv",)}
"""Forms of a study, and the file endings that stand for them."""

MIN_COLUMNS_STACKED = 8
"""Columns from which a table has its intervals below the numbers."""


@dataclass(frozen=True)
class GridRow:
    """One row; a hole is a row without a number in a table of numbers."""

    label: str
    cells: list[ShownEstimate]
    is_hole: bool


@dataclass(frozen=True)
class GridTable:
    """A table ready to print."""

    title: str
    note: str
    columns: list[str]
    rows: list[GridRow]
    is_stacked: bool


@dataclass(frozen=True)
class StudyPage:
    """Everything the page shows, formatted; an empty part has no section."""

    eyebrow: str
    title: str
    about: str
    measured: list[str]
    not_covered: list[str]
    advice: list[str]
    warnings: list[str]
    plots_title: str
    plots: list[Plot]
    contest: list[GridTable]
    tables: list[GridTable]
    protocol: list[Term]
    version: str


def form_of(path: str | Path | None) -> str:
    """Return the form that the ending of a file stands for; HTML where there is no file or no ending.

    Raises:
        UsageError: the ending stands for no form.
    """
    suffix = "" if path is None else Path(path).suffix.lower()
    forms = [form for form, endings in FORMS.items() if suffix in endings]
    if suffix and not forms:
        known = ", ".join(ending for endings in FORMS.values() for ending in endings)
        raise UsageError(f"The ending {suffix} of {path} stands for no form of a study. Known: {known}.")
    return forms[0] if forms else "html"


def write_study(result: StudyResult, path: Path | None, form: str) -> str:
    """Write the study, whole or not at all.

    Args:
        result: The study.
        path: File to write; None only returns the text.
        form: One of `FORMS`.

    Returns:
        The text that was written.

    Raises:
        UsageError: the form is unknown, or the file cannot be written.
    """
    # The page imports this module for its data.
    from recveil.report.html import render

    writers = {"html": render, "md": write_markdown, "latex": write_latex, "csv": write_csv}
    if form not in writers:
        raise unknown_name("format", form, FORMS)
    text = writers[form](result)
    if path is not None:
        with write_atomically(path) as temporary:
            temporary.write_text(text, encoding="utf-8")
    return text


def write_figures(result: StudyResult, folder: Path) -> list[Figure]:
    """Write every chart of the study as an SVG file into this folder, which must exist."""
    figures = []
    study = re.sub(r"[^\w.-]+", "-", result.name)  # a name from a stranger's folder must not lead elsewhere
    for plot in describe_study(result):
        words = "-".join(re.findall(r"[a-z0-9]+", plot.title.lower()))
        path = folder / f"{study}-{words}.svg"
        with write_atomically(path) as temporary:
            temporary.write_text(draw_file(plot), encoding="utf-8")
        figures.append(Figure(title=plot.title, path=str(path)))
    return figures


def build_study_page(result: StudyResult) -> StudyPage:
    """Return the page of a study."""
    return StudyPage(
        eyebrow="recveil study report",
        title=format_text(result.title or "A study"),
        about=format_text(result.about),
        measured=_list_measured(result),
        not_covered=["Data, models, defenses and attacks other than those in the tables."],
        advice=[redact_sentence(line) for line in result.advice],
        warnings=_list_holes(result),
        plots_title="Shadow against target model" if result.kind == "membership" else "Privacy against ranking",
        plots=describe_study(result),
        contest=[build_grid_table(table) for table in list_contest_tables(result)],
        tables=[build_grid_table(table) for table in result.tables],
        protocol=_list_protocol_terms(result),
        version=format_text(result.recveil_version),
    )


def describe_study(result: StudyResult) -> list[Plot]:
    """Describe all charts of a study."""
    frontiers = [plot for i, frontier in enumerate(result.frontiers) for plot in _describe_frontier(i, frontier)]
    return [*frontiers, *(_describe_heat(i, heat) for i, heat in enumerate(result.heats))]


def _list_measured(result: StudyResult) -> list[str]:
    """Say what the study repeats, how much of it was run, and whether its size allows conclusions."""
    done = f"{format_count(result.cells.done)} of {format_count(result.cells.wanted)} cells."
    smoke = ["Smoke size: these are not results."] if result.size == "smoke" else []
    return [format_text(part) for part in (result.source, done, *smoke) if part]


def _list_holes(result: StudyResult) -> list[str]:
    missing = result.cells.missing
    holes = [f"{format_count(missing)} cells were not run; they are holes in the tables."] if missing else []
    return holes + [f"{format_text(f.cell)}: {redact_sentence(f.error)}" for f in result.failures]


def build_grid_table(table: StudyTable) -> GridTable:
    """Return a table ready to print; rows without a number are marked in a table of numbers."""
    measured = [any(isinstance(value, Estimate | float) for value in row.cells.values()) for row in table.rows]
    rows = [
        GridRow(
            label=format_text(row.label),
            cells=[_split_cell(row.cells.get(column.key), column) for column in table.columns],
            is_hole=any(measured) and not has_number,
        )
        for row, has_number in zip(table.rows, measured, strict=True)
    ]
    return GridTable(
        title=format_text(table.title),
        note=redact_sentence(table.note),
        columns=[format_text(column.label) for column in table.columns],
        rows=rows,
        is_stacked=len(table.columns) >= MIN_COLUMNS_STACKED,
    )


def _split_cell(value: TableValue, column: TableColumn) -> ShownEstimate:
    if isinstance(value, Estimate):
        return format_estimate(value, column.digits, signed=column.signed)
    return ShownEstimate(format_cell(value, column))


def _describe_frontier(index: int, frontier: StudyFrontier) -> list[TradeoffPlot]:
    """Describe each defense as a point with its intervals both ways; nothing for fewer than two."""
    points = [point for entry in frontier.points for point in _make_method_point(entry)]
    if len(points) < 2:
        return []
    advantage, loss = (*frontier.reference, 1.0, 20.0)[:2]
    return [
        TradeoffPlot(
            id=f"frontier.{index}",
            title=format_text(frontier.title),
            caption="Lower is more private, further left is cheaper, both stretched near zero; bars are 95 % "
            "intervals, and the dashed line joins the defenses that nothing beats. Together they reach "
            f"{format_number(frontier.hypervolume)} of the area up to the reference point (advantage "
            f"{format_number(advantage)}, a loss of {format_number(loss, 0)} %).",
            axis="Loss of NDCG, %",
            points=points,
        )
    ]


def _make_method_point(entry: StudyFrontierPoint) -> list[MethodPoint]:
    """Return the point of a defense; a change of the ranking becomes a loss, with its ends swapped."""
    advantage, loss = finite_or_none(entry.advantage.value), _negate(entry.change.value)
    if advantage is None or loss is None:
        return []
    return [
        MethodPoint(
            method=format_text(entry.defense),
            is_best=entry.best,
            advantage=advantage,
            cost=loss,
            low=finite_or_none(entry.advantage.low),
            high=finite_or_none(entry.advantage.high),
            cost_low=_negate(entry.change.high),
            cost_high=_negate(entry.change.low),
        )
    ]


def _negate(value: float) -> float | None:
    number = finite_or_none(value)
    return None if number is None else 0.0 - number


def _describe_heat(index: int, heat: HeatMap) -> HeatPlot:
    """Describe shadow by target; the stronger the color the further from guessing, whichever way."""
    return HeatPlot(
        id=f"heat.{index}",
        title=format_text(heat.title),
        caption="AUC. Rows: model of the shadow. Columns: model of the target. Stronger color is further from guessing "
        "(0.5).",
        labels=[format_text(label) for label in heat.labels],
        squares=[
            HeatSquare(
                row=format_text(cell.shadow),
                column=format_text(cell.target),
                share=min(1.0, 2 * abs(cell.auc - 0.5)),
                text=f"{cell.auc:.3f}",
            )
            for cell in heat.cells
            if finite_or_none(cell.auc) is not None
        ],
    )


def _list_protocol_terms(result: StudyResult) -> list[Term]:
    rules = result.settings
    attribute: Sequence[tuple[str, str]] = (
        ("Folds", f"{rules.folds} x {rules.repeats} for each seed"),
        ("Users not attacked", f"{100 * rules.unattacked:.0f} %, used to choose settings"),
        ("Cutoffs", ", ".join(map(str, rules.k))),
        (
            "Intervals",
            "attack scores: corrected resampled t over the folds of all seeds; ranking: over users, after the mean of "
            "the seeds",
        ),
    )
    membership: Sequence[tuple[str, str]] = (
        ("List length", str(rules.list_length)),
        ("Seen items", rules.seen),
        ("Intervals", "DeLong within a seed; over seeds the wider of that and a t interval"),
    )
    terms = [("recveil", result.recveil_version), ("Plan", result.name), ("Size", result.size)]
    terms += membership if result.kind == "membership" else attribute
    command = [Term("Command", format_command(result.command_line), is_code=True)] if result.command_line else []
    return [Term(term, format_text(text)) for term, text in terms] + command
