"""Tables of a study as text: Markdown, LaTeX (booktabs) and CSV. A cell without a number is empty."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence

from recveil.core.results import StudyResult
from recveil.core.study_parts import StudyTable, TableColumn, TableValue
from recveil.core.types import Estimate
from recveil.report.formatting import (
    MISSING,
    finite_or_none,
    format_command,
    format_estimate,
    format_number,
    format_text,
    redact_sentence,
)

__all__ = [
    "escape_markdown",
    "format_cell",
    "list_contest_tables",
    "write_csv",
    "write_latex",
    "write_markdown",
    "write_markdown_table",
]

_LATEX_SIGNS = {
    **{c: f"\\{c}" for c in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "−": "$-$",
    MISSING: "",
}


def format_cell(value: TableValue, column: TableColumn) -> str:
    """Return one cell ready to print: a number with its interval, a number, a text, or nothing."""
    if isinstance(value, Estimate):
        shown = format_estimate(value, column.digits, signed=column.signed)
        return "" if shown.value == MISSING else str(shown)
    if isinstance(value, str) or value is None:
        return format_text(value or "")
    return "" if finite_or_none(value) is None else format_number(value, column.digits, signed=column.signed)


def list_contest_tables(result: StudyResult) -> list[StudyTable]:
    """Return the tables in which defenses compete, where they have rows."""
    return [table for table in (result.volumes, result.wins) if table is not None and table.rows]


def write_markdown(result: StudyResult) -> str:
    """Return the whole study as Markdown: subject, conclusions, figures, tables, failures."""
    cells = result.cells
    command = format_command(result.command_line).replace("`", "'")
    parts = [
        f"# {escape_markdown(result.title)}",
        f"Made by `{command}`." if command else "",
        _escape_sentence(result.about),
        f"{cells.done} of {cells.wanted} cells are done, {cells.failed} failed, {cells.missing} were not run. "
        f"Size: {escape_markdown(result.size)}.",
    ]
    if result.advice:
        parts += ["## Conclusions", "\n".join(f"- {_escape_sentence(line)}" for line in result.advice)]
    for figure in result.figures:
        title = escape_markdown(figure.title)
        parts += [f"### {title}", f"![{title}]({figure.path})"]
    for table in [*result.tables, *list_contest_tables(result)]:
        head, rows = _build_grid(table)
        parts += [f"## {escape_markdown(table.title)}", _escape_sentence(table.note), write_markdown_table(head, rows)]
    if result.failures:
        lines = [f"- {escape_markdown(f.cell)}: {_escape_sentence(f.error)}" for f in result.failures]
        parts += ["## Cells that failed", "\n".join(lines)]
    return "\n\n".join(part for part in parts if part) + "\n"


def write_markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table of texts; characters that would break it are escaped."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(escape_markdown(value) for value in line)} |" for line in lines)


def write_latex(result: StudyResult) -> str:
    """Return all tables, each a `table` with rules of the package booktabs."""
    tables = [*result.tables, *list_contest_tables(result)]
    return "\n\n".join(["% needs \\usepackage{booktabs}", *map(_write_latex_table, tables)]) + "\n"


def _write_latex_table(table: StudyTable) -> str:
    head, rows = _build_grid(table)
    first, *body = (" & ".join(_escape_latex(value) for value in line) + r" \\" for line in (head, *rows))
    lines = [
        r"\begin{table}",
        rf"\caption{{{_escape_latex(table.title)}. {_escape_latex(table.note)}}}",
        rf"\begin{{tabular}}{{l{'r' * (len(head) - 1)}}}",
        r"\toprule",
        first,
        r"\midrule",
        *body,
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines)


def write_csv(result: StudyResult) -> str:
    """Return all numbers, one in a line: table, row, column, value, low, high, n; texts stand as values."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["table", "row", "column", "value", "low", "high", "n"])
    for table in [*result.tables, *list_contest_tables(result)]:
        for row in table.rows:
            for column in table.columns:
                names = [_disarm_formula(name) for name in (table.title, row.label, column.label)]
                writer.writerow([*names, *_list_numbers(row.cells.get(column.key))])
    return out.getvalue()


def _list_numbers(value: TableValue) -> list[float | str]:
    if isinstance(value, Estimate):
        ends = [finite_or_none(number) for number in (value.value, value.low, value.high)]
        return ["" if end is None else end for end in ends] + [value.n]
    if isinstance(value, str):
        return [_disarm_formula(value), "", "", ""]
    number = finite_or_none(value)
    return ["" if number is None else number, "", "", ""]


def _build_grid(table: StudyTable) -> tuple[list[str], list[list[str]]]:
    head = ["", *(column.label for column in table.columns)]
    rows = [
        [row.label, *(format_cell(row.cells.get(column.key), column) for column in table.columns)] for row in table.rows
    ]
    return head, rows


def escape_markdown(value: object) -> str:
    """Return text that Markdown shows as it is, in a table as well."""
    return re.sub(r"([\\|<*])", r"\\\1", format_text(value))


def _escape_sentence(sentence: str) -> str:
    """Return a sentence of ours: it may name things in backticks, but it opens no HTML."""
    return redact_sentence(sentence).replace("<", "\\<")


def _escape_latex(value: str) -> str:
    return "".join(_LATEX_SIGNS.get(character, character) for character in format_text(value))


def _disarm_formula(value: str) -> str:
    """Return a text that no spreadsheet takes for a formula."""
    shown = format_text(value)
    return f"'{shown}" if shown[:1] in ("=", "+", "-", "@") else shown
