"""Charts of classes: histograms, maps and heat maps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from recveil.report.chart_style import (
    CHART_WIDTH,
    CLASS_COLORS,
    CLASS_DASHES,
    INK,
    RELEASE_COLORS,
    choose_padding,
    make_data,
)
from recveil.report.figures import ClassMark, HeatPlot, MapPlot, StepPlot, list_distinct

__all__ = ["build_heat_chart", "build_map_chart", "build_step_chart"]

MAX_LABELS_WITH_NUMBERS = 8
"""Rows of a heat map up to which a square has room for its number."""


def build_step_chart(altair: Any, plot: StepPlot) -> Any:
    """Return histograms as outlines on one axis, one panel for each release."""
    across = [point.x for point in plot.points]
    span = altair.Scale(domain=[min(across), max(across)], nice=False)
    axis = altair.Axis(title="Standard deviations within a class", tickCount=6, labelFlush=False, titlePadding=8)
    shared = altair.Chart().encode(
        x=altair.X("x:Q", scale=span, axis=axis),
        y=altair.Y("y:Q", stack=None, title=None, axis=altair.Axis(labels=False, grid=False)),
    )
    color = altair.Color("label:N", scale=_build_class_scale(altair, plot.classes, CLASS_COLORS), legend=None)
    dashes = _build_class_scale(altair, plot.classes, CLASS_DASHES)
    area = shared.mark_area(interpolate="step-after", opacity=0.16).encode(color=color)
    line = shared.mark_line(interpolate="step-after", strokeWidth=2, clip=True).encode(
        color=color, strokeDash=altair.StrokeDash("label:N", scale=dashes, legend=None)
    )
    one_release = len(list_distinct([point.release for point in plot.points])) == 1
    panel = altair.layer(area, line, data=make_data(altair, plot.points)).properties(
        width=CHART_WIDTH - 30, height=200 if one_release else 120
    )
    return _repeat_panels(altair, panel, plot.points)


def build_map_chart(altair: Any, plot: MapPlot) -> Any:
    """Return one panel for each class and release: the denser a cell the fuller, and a dot at the mean."""
    side = min(190, 2 * CHART_WIDTH // max(len(plot.classes), 2))
    x, y = (altair.Scale(domain=ends, nice=False, zero=False) for ends in plot.ranges)
    shared = altair.Chart().encode(
        x=altair.X("x:Q", scale=x, axis=altair.Axis(title=None, tickCount=5)),
        y=altair.Y("y:Q", scale=y, axis=altair.Axis(title=None, tickCount=5)),
    )
    # At least 8 % opaque: an empty cell is one that is not shown.
    densest = max((cell.density or 0.0 for cell in plot.cells), default=1)
    opacity = altair.FillOpacity("density:Q", scale=altair.Scale(domain=[0, densest], range=[0.08, 0.95]), legend=None)
    fill = altair.Fill("label:N", scale=_build_class_scale(altair, plot.classes, CLASS_COLORS), legend=None)
    cells = shared.mark_rect(stroke=None).transform_filter("isValid(datum.density)")
    cells = cells.encode(x2="x_end:Q", y2="y_end:Q", fill=fill, fillOpacity=opacity)
    means = shared.mark_point(shape="circle", filled=True, fill=INK, size=42, opacity=1)
    means = means.transform_filter("!isValid(datum.density)")
    marks = [*plot.means, *plot.cells]
    panel = altair.layer(cells, means, data=make_data(altair, marks)).properties(width=side, height=side)
    return _repeat_panels(altair, panel, marks, column=altair.Column("label:N", sort=list(plot.classes), title=None))


def build_heat_chart(altair: Any, plot: HeatPlot) -> Any:
    """Return a square of rows against columns; the fuller the color the larger the share."""
    labels = list(plot.labels)
    size = max(16, min(72, 300 // len(labels)))
    upright = len(labels) <= 5 and max(map(len, labels)) <= 9
    axis = altair.Axis(
        orient="top", labelAngle=0 if upright else -40, labelLimit=110, labelPadding=6, domain=False, ticks=False
    )
    grid = altair.Chart(make_data(altair, plot.squares)).encode(
        x=altair.X("column:N", sort=labels, title=None, axis=axis, scale=altair.Scale(domain=labels)),
        y=altair.Y("row:N", sort=labels, title=None, scale=altair.Scale(domain=labels)),
    )
    # At most 70 % opaque: the number on top is in the color of the text, dark or light, and must stay readable.
    opacity = altair.FillOpacity("share:Q", scale=altair.Scale(domain=[0, 1], range=[0.04, 0.7]), legend=None)
    squares = grid.mark_rect(fill=RELEASE_COLORS["after"], stroke=INK, strokeOpacity=0.15).encode(fillOpacity=opacity)
    numbers = grid.mark_text(fontSize=13, color=INK).encode(text="text:N")
    layers = [squares, numbers] if len(labels) <= MAX_LABELS_WITH_NUMBERS else [squares]
    side = size * len(labels)
    return altair.layer(*layers).properties(width=side, height=side, padding=choose_padding(labels))


def _build_class_scale(altair: Any, classes: Sequence[str], marks: Sequence[Any]) -> Any:
    """Return colors or dashes of the classes, the same in every figure of an attribute."""
    return altair.Scale(domain=list(classes), range=[marks[i % len(marks)] for i in range(len(classes))])


def _repeat_panels(altair: Any, panel: Any, marks: Sequence[ClassMark], **facets: Any) -> Any:
    """Return the panel once for each release, one below the other on the same axes."""
    releases = list_distinct([mark.release for mark in marks])
    if len(releases) > 1:
        header = altair.Header(title=None, labelOrient="top", labelAnchor="start", labelAngle=0, labelPadding=2)
        facets["row"] = altair.Row("release:N", sort=releases, title=None, header=header)
    return panel.facet(**facets, spacing=14) if facets else panel
