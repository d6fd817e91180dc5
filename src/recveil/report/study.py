"""The page of a study, as plain dicts and strings: advice, frontiers, tables with holes, heat maps of membership."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from recveil.core.errors import DataError, unknown_name
from recveil.core.files import writing
from recveil.report.formatting import as_dict, count, estimate, finite, number, text
from recveil.report.tables import as_csv, as_latex, as_markdown, shown
from recveil.studies.tables import SCHEMA

__all__ = ["FORMATS", "standing_alone", "studied", "write_figures", "write_study"]

Json = Mapping[str, Any]
FORMATS = ("html", "md", "latex", "csv")
MANY = 8
"""Columns from which a table has its intervals under the numbers."""


def write_study(document: Json, path: Path | None, form: str) -> str:
    """The study in this form, written whole or not at all if a path is given; the text comes back."""
    from recveil.report.html import render

    makers = {"html": render, "md": as_markdown, "latex": as_latex, "csv": as_csv}
    if form not in makers:
        raise unknown_name("format", form, FORMATS)
    made = makers[form](document)
    if path is not None:
        with writing(path) as temporary:
            temporary.write_text(made, encoding="utf-8")
    return made


def write_figures(document: Json, folder: Path) -> list[dict[str, str]]:
    """Every chart of the study as an SVG file in this folder, which must be there: title and path of each."""
    from recveil.report.charts import draw

    made = []
    for figure in studied(document)["charts"]:
        words = "-".join(re.findall(r"[a-z0-9]+", figure["title"].lower()))
        path = folder / f"{document.get('name')}-{words}.svg"
        with writing(path) as temporary:
            temporary.write_text(standing_alone(draw(figure)), encoding="utf-8")
        made.append({"title": figure["title"], "path": str(path)})
    return made


def standing_alone(svg: str) -> str:
    """The drawing as a file of its own: with its namespace, and on white, since no page lends it a colour."""
    return svg.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" style="background: #fff" ', 1) + "\n"


def studied(document: Json) -> dict[str, Any]:
    """Everything the page shows, formatted."""
    if document.get("schema") != SCHEMA or not isinstance(document.get("cells"), Mapping):
        raise DataError(
            f"The document has schema {document.get('schema')!r} and is no study of schema {SCHEMA}. Make it again "
            "with this version (`recveil study report DIR`)."
        )
    cells = as_dict(document["cells"])
    frontiers = [_frontier(i, as_dict(one)) for i, one in enumerate(document.get("frontiers") or [])]
    return {
        "title": text(document.get("title") or "A study"),
        "version": text(document.get("recveil", "")),
        "kind": text(document.get("kind") or ""),
        "about": text(document.get("about") or ""),
        "size": _size(document, cells),
        "advice": [text(line) for line in document.get("advice") or []],
        "warnings": _warnings(document, cells),
        "charts": [one for one in frontiers if one] + [_heat(i, as_dict(h)) for i, h in _numbered(document, "heats")],
        "contest": [_table(as_dict(document[key])) for key in ("volumes", "wins") if _rows(document, key)],
        "tables": [_table(as_dict(one)) for one in document.get("tables") or []],
        "protocol": _protocol(document),
    }


def _numbered(document: Json, key: str) -> list[tuple[int, Any]]:
    return list(enumerate(document.get(key) or []))


def _rows(document: Json, key: str) -> bool:
    return bool(as_dict(document.get(key)).get("rows"))


def _size(document: Json, cells: Json) -> str:
    parts = [text(document.get("source") or ""), f"{count(cells.get('done'))} of {count(cells.get('wanted'))} cells"]
    parts += ["smoke size: these are no results"] if document.get("size") == "smoke" else []
    return " · ".join(part for part in parts if part)


def _warnings(document: Json, cells: Json) -> list[str]:
    told = [f"{text(f['cell'])}: {text(f['error'])}" for f in document.get("failures") or []]
    missing = finite(cells.get("missing")) or 0
    return ([f"{count(missing)} cells were not run; they are holes in the tables."] if missing else []) + told


def _table(one: Json) -> dict[str, Any]:
    columns = list(one["columns"])
    numbers = [any(isinstance(v, Mapping | float) for v in as_dict(row["cells"]).values()) for row in one["rows"]]
    rows = [
        {
            "label": text(row["label"]),
            "cells": [_parts(as_dict(row["cells"]).get(column["key"]), column) for column in columns],
            "hole": any(numbers) and not measured,  # a table of words has no holes
        }
        for row, measured in zip(one["rows"], numbers, strict=True)
    ]
    return {
        "title": text(one["title"]),
        "note": text(one["note"]),
        "columns": [text(column["label"]) for column in columns],
        "rows": rows,
        "stacked": len(columns) >= MANY,
    }


def _parts(value: Any, column: Json) -> dict[str, str]:
    """A number and, apart, its interval."""
    if isinstance(value, Mapping):
        return estimate(value, int(column.get("digits", 3)), signed=bool(column.get("signed")))
    return {"value": shown(value, column), "interval": ""}


def _frontier(index: int, one: Json) -> dict[str, Any] | None:
    """Each defense as a point with its intervals both ways; a line joins those that nothing beats."""
    rows = [_point(as_dict(p)) for p in one.get("points") or []]
    rows = [row for row in rows if row["advantage"] is not None and row["cost"] is not None]
    if len(rows) < 2:
        return None
    reference: Sequence[Any] = one.get("reference") or (1.0, 20.0)
    volume = number(one.get("hypervolume"))
    return {
        "kind": "bands",
        "id": f"frontier.{index}",
        "title": text(one.get("title") or ""),
        "caption": "Lower is more private, further left is cheaper, both stretched near zero; bars are 95 % intervals, "
        f"and the line joins what nothing else beats. All together reach {volume} of the room up to the reference "
        f"point (advantage {number(reference[0])}, a loss of {number(reference[1], 0)} %).",
        "axis": "Loss of NDCG, %",
        "rows": rows,
        "series": [],
        "lines": [],
    }


def _point(point: Json) -> dict[str, Any]:
    a, c = as_dict(point.get("advantage")), as_dict(point.get("change"))
    cost = {"cost": c.get("value"), "cost_low": c.get("high"), "cost_high": c.get("low")}
    return {
        "method": text(point.get("defense")),
        "best": bool(point.get("best")),
        "advantage": finite(a.get("value")),
        "low": finite(a.get("low")),
        "high": finite(a.get("high")),
        **{key: None if (given := finite(value)) is None else 0.0 - given for key, value in cost.items()},
    }


def _heat(index: int, one: Json) -> dict[str, Any]:
    """Shadow by target; the fuller the further from guessing, whichever way."""
    labels = [text(label) for label in one["labels"]]
    cells = [
        {
            "truth": text(cell["shadow"]),
            "guess": text(cell["target"]),
            "share": min(1.0, 2 * abs(float(cell["auc"]) - 0.5)),
            "text": f"{float(cell['auc']):.3f}",
        }
        for cell in one["cells"]
    ]
    return {
        "kind": "heat",
        "id": f"heat.{index}",
        "title": text(one["title"]),
        "caption": "AUC. Down: the shadow's model. Across: the target's. The fuller, the further from guessing (0.5).",
        "labels": labels,
        "cells": cells,
        "series": [],
        "lines": [],
    }


def _protocol(document: Json) -> list[dict[str, str]]:
    rules = as_dict(document.get("settings"))
    of_attributes = [
        ("Folds", f"{rules.get('folds')} x {rules.get('repeats')} for each seed"),
        ("Users not attacked", f"{100 * (finite(rules.get('unattacked')) or 0):.0f} %, by whom settings were chosen"),
        ("Cut-offs", ", ".join(map(str, rules.get("k") or []))),
        ("Intervals", "attack scores: corrected resampled t over the folds of all seeds; ranking: over users, mean of "
         "the seeds first"),
    ]  # fmt: skip
    of_membership = [
        ("Places of a list", rules.get("list_length")),
        ("Items already touched", rules.get("seen")),
        ("Intervals", "DeLong within a seed; over seeds the wider of that and a t interval"),
    ]
    lines: list[tuple[str, Any]] = [("Plan", document.get("name")), ("Size", document.get("size"))]
    lines += of_membership if document.get("kind") == "membership" else of_attributes
    lines.append(("Command", shlex.join(map(str, document["argv"])) if document.get("argv") else None))
    return [{"term": term, "text": text(value)} for term, value in lines if value is not None]
