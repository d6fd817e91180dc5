"""Lay a result out on one HTML page: one file, no network, no script, light and dark, printable."""

from __future__ import annotations

from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from recveil.core.files import write_atomically
from recveil.core.results import (
    AuditResult,
    CloakResult,
    Document,
    MembershipResult,
    StudyResult,
    TrainResult,
    TuneResult,
)
from recveil.report.attribute_page import AttributePage, build_attribute_page
from recveil.report.chart_style import CLASS_COLORS, RELEASE_COLORS
from recveil.report.charts import draw
from recveil.report.figures import Plot
from recveil.report.formatting import replace_controls
from recveil.report.membership_page import MembershipPage, build_membership_page
from recveil.report.study_page import StudyPage, build_study_page
from recveil.report.tuning_figure import build_tuning_page

__all__ = ["render", "write_report"]

Page = AttributePage | MembershipPage | StudyPage
_TEMPLATES = {AttributePage: "attribute", MembershipPage: "membership", StudyPage: "study"}


def render(document: Document) -> str:
    """Return the page of a result document."""
    page = _build_page(document)
    template = _make_environment().get_template(f"{_TEMPLATES[type(page)]}.html.j2")
    text = template.render(page=page, colors=RELEASE_COLORS, class_colors=CLASS_COLORS, draw=_draw_markup)
    return replace_controls(text)  # also in charts, whose texts take another way


def write_report(document: Document, path: str | Path) -> None:
    """Write the page, whole or not at all."""
    page = render(document)
    with write_atomically(path) as temporary:
        temporary.write_text(page, encoding="utf-8")


def _build_page(document: Document) -> Page:
    match document:
        case AuditResult() | CloakResult() | TrainResult():
            return build_attribute_page(document)
        case MembershipResult():
            return build_membership_page(document)
        case StudyResult():
            return build_study_page(document)
        case TuneResult():
            return build_tuning_page(document)
    raise TypeError(f"There is no page for a {type(document).__name__}.")


def _draw_markup(plot: Plot) -> Markup:
    # `draw` escapes the texts of the document, so its SVG goes into the page as it is.
    return Markup(draw(plot))  # nosec B704


def _make_environment() -> Environment:
    return Environment(
        loader=PackageLoader("recveil.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
