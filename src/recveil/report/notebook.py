"""Results in a notebook: the page in a frame of its own, and single figures as altair charts."""

from __future__ import annotations

import html
from collections.abc import Iterator
from typing import Any

from recveil.core.errors import UsageError, unknown_name
from recveil.core.results import AuditResult, CloakResult, Document, MembershipResult, StudyResult, TrainResult
from recveil.report.attribute_page import build_attribute_page
from recveil.report.chart_style import apply_style
from recveil.report.charts import build_chart, import_altair, show_legends
from recveil.report.figures import Plot
from recveil.report.formatting import format_text
from recveil.report.membership_page import build_membership_page
from recveil.report.study_page import build_study_page

__all__ = ["frame_page", "list_figures", "plot_figure"]

FRAME_HEIGHT = 760
"""Pixels of the frame; the page scrolls inside it."""


def frame_page(page: str) -> str:
    """Return a page in a frame that runs no script, so that its styles do not reach the notebook."""
    source = html.escape(page, quote=True)
    style = f"width: 100%; height: {FRAME_HEIGHT}px; border: 1px solid #8884; border-radius: 6px"
    return f'<iframe sandbox title="recveil report" style="{style}" srcdoc="{source}"></iframe>'


def list_figures(document: Document) -> dict[str, Plot]:
    """Return the figures of a result by name, such as `gender.advantage`."""
    return {plot.id: plot for plot in _iterate_figures(document)}


def plot_figure(document: Document, kind: str, target: str | None = None) -> Any:
    """Return one figure of a result as an altair chart.

    Args:
        document: the result.
        kind: name of the figure after that of its attribute, such as `advantage`.
        target: the attribute; the first that has such a figure if None.

    Raises:
        UsageError: the result has no such figure.
    """
    figures = list_figures(document)
    owners = {name: f".{name}.".rpartition(f".{kind}.")[0][1:] for name in figures if f".{kind}." in f".{name}."}
    if not owners:
        known = ", ".join(figures) or "none"
        raise UsageError(f"This result has no figure '{kind}': it was not measured. Its figures: {known}.")
    owner = next(iter(owners.values())) if target is None else format_text(target)
    matching = [name for name in owners if owners[name] == owner]
    if not matching:
        raise unknown_name("attribute of this figure", owner, set(owners.values()))
    altair, plot = import_altair(), figures[matching[-1]]  # "after" follows "before"
    chart = apply_style(build_chart(altair, plot)).properties(title=plot.title)
    return altair.Chart.from_dict(show_legends(chart.to_dict()))


def _iterate_figures(document: Document) -> Iterator[Plot]:
    match document:
        case AuditResult() | CloakResult() | TrainResult():
            page = build_attribute_page(document)
            for section in page.targets:
                yield from section.plots
                yield from section.leaks.plots if section.leaks else ()
            yield from page.frontier.plots if page.frontier else ()
        case MembershipResult():
            yield from build_membership_page(document).plots
        case StudyResult():
            yield from build_study_page(document).plots
