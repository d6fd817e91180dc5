"""Tables of a study as text: Markdown, LaTeX (booktabs) and CSV. A cell without a number is an empty one."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from typing import Any

from recveil.report.formatting import MISSING, as_dict, estimate, finite, number, text

__all__ = ["as_csv", "as_latex", "as_markdown", "escaped", "markdown_table", "shown", "tables_of"]

Json = Mapping[str, Any]

_LATEX = {
    **{c: f"\\{c}" for c in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "−": "$-$",
    MISSING: "",
}


def shown(value: Any, column: Json) -> str:
    """One cell, ready to print: a number with its interval, a number, a text, or nothing."""
    digits, signed = int(column.get("digits", 3)), bool(column.get("signed"))
    if isinstance(value, Mapping):
        part = estimate(value, digits, signed=signed)
        return f"{part['value']} {part['interval']}".strip() if part["value"] != MISSING else ""
    if finite(value) is not None:
        return number(value, digits, signed=signed)
    return "" if value is None else text(value)


def as_markdown(document: Json) -> str:
    """The whole study: what was asked, advice, all tables."""
    cells = as_dict(document.get("cells"))
    made = " ".join(map(str, document.get("argv") or []))
    parts = [
        f"# {escaped(document.get('title'))}",
        f"Made by `{made}`." if made else "",
        _sentence(document.get("about")),
    ]
    parts.append(
        f"{cells.get('done')} of {cells.get('wanted')} cells are done, {cells.get('failed')} failed, "
        f"{cells.get('missing')} were not run. Size: {escaped(document.get('size'))}."
    )
    advice = [f"- {_sentence(line)}" for line in document.get("advice") or []]
    parts += ["## In words", "\n".join(advice)] if advice else []
    for figure in document.get("figures") or []:
        title = escaped(figure["title"])
        parts += [f"### {title}", f"![{title}]({figure['path']})"]
    for one in tables_of(document):
        parts += [f"## {escaped(one['title'])}", _sentence(one["note"]), markdown_table(*_grid(one))]
    failures = [f"- {escaped(f['cell'])}: {_sentence(f['error'])}" for f in document.get("failures") or []]
    parts += ["## Cells that failed", "\n".join(failures)] if failures else []
    return "\n\n".join(part for part in parts if part) + "\n"


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of texts; what would break it is escaped."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(escaped(value) for value in line)} |" for line in lines)


def as_latex(document: Json) -> str:
    """All tables, each a `table` with rules of the package booktabs."""
    parts = ["% needs \\usepackage{booktabs}"]
    for one in tables_of(document):
        head, rows = _grid(one)
        body = [" & ".join(_latex(value) for value in line) + r" \\" for line in (head, *rows)]
        parts.append(
            "\n".join(
                [
                    r"\begin{table}",
                    rf"\caption{{{_latex(one['title'])}. {_latex(one['note'])}}}",
                    rf"\begin{{tabular}}{{l{'r' * (len(head) - 1)}}}",
                    r"\toprule",
                    body[0],
                    r"\midrule",
                    *body[1:],
                    r"\bottomrule",
                    r"\end{tabular}",
                    r"\end{table}",
                ]
            )
        )
    return "\n\n".join(parts) + "\n"


def as_csv(document: Json) -> str:
    """All numbers, one in a line: table, row, column, value, low, high, n; texts stand where values do."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["table", "row", "column", "value", "low", "high", "n"])
    for one in tables_of(document):
        for row in one["rows"]:
            for column in one["columns"]:
                value = row["cells"].get(column["key"])
                part = dict(value) if isinstance(value, Mapping) else {"value": value}
                numbers = ["" if part.get(key) is None else part[key] for key in ("value", "low", "high", "n")]
                writer.writerow([_plain(v) for v in (one["title"], row["label"], column["label"])] + numbers)
    return out.getvalue()


def tables_of(document: Json) -> list[Json]:
    """Every table of a study, those of the contest last."""
    contest = [document[key] for key in ("volumes", "wins") if as_dict(document.get(key)).get("rows")]
    return [*(document.get("tables") or []), *contest]


def _grid(one: Json) -> tuple[list[str], list[list[str]]]:
    head = ["", *(str(column["label"]) for column in one["columns"])]
    rows = [
        [str(row["label"]), *(shown(row["cells"].get(column["key"]), column) for column in one["columns"])]
        for row in one["rows"]
    ]
    return head, rows


def escaped(value: Any) -> str:
    """Text that Markdown shows as it is, in a table as well."""
    return re.sub(r"([\\|<*])", r"\\\1", text("" if value is None else value))


def _sentence(value: Any) -> str:
    """Our own sentences may name things in backticks; marks that open HTML may not stay."""
    return text("" if value is None else value).replace("<", "\\<")


def _latex(value: Any) -> str:
    return "".join(_LATEX.get(character, character) for character in text(value))


def _plain(value: Any) -> str:
    """A text that no spreadsheet takes for a formula."""
    shown_text = text(value)
    return f"'{shown_text}" if shown_text[:1] in ("=", "+", "-", "@") else shown_text
