"""Lays the summary and its figures out on one HTML page: one file, no network, no script, light and dark, printable."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from recveil.core.files import writing
from recveil.report.charts import CLASS_COLORS, COLORS, draw
from recveil.report.membership import told
from recveil.report.study import studied
from recveil.report.summary import summarize

__all__ = ["render", "write_report"]


def render(document: Mapping[str, Any]) -> str:
    """The page for a result document, the one that `--json` prints."""
    pages = {"membership": (told, "membership"), "study": (studied, "study")}
    summarized, template = pages.get(str(document.get("command")), (summarize, "report"))
    summary = summarized(document)
    # `draw` escapes what comes from the document, so its SVG goes into the page as it is.
    page = _environment().get_template(f"{template}.html.j2")
    return page.render(summary, colors=COLORS, class_colors=CLASS_COLORS, draw=lambda figure: Markup(draw(figure)))


def write_report(document: Mapping[str, Any], path: str | Path) -> None:
    """Writes the page, whole or not at all."""
    page = render(document)
    with writing(path) as temporary:
        temporary.write_text(page, encoding="utf-8")


def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("recveil.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
