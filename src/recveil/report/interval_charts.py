"""Charts of values with intervals: dots by group, and curves over the share of known users."""

from __future__ import annotations

from typing import Any

from recveil.report.chart_style import (
    CHART_WIDTH,
    INK,
    LINE_DASHES,
    RELEASE_COLORS,
    RELEASE_SHAPES,
    build_release_scale,
    choose_domain,
    choose_padding,
    make_data,
)
from recveil.report.figures import CurvePlot, DotPlot, list_distinct

__all__ = ["build_curve_chart", "build_dot_chart"]


def build_dot_chart(altair: Any, plot: DotPlot) -> Any:
    """Return one row per group, with a dot and a bar per release, and the reference lines."""
    groups = list_distinct([point.group for point in plot.points])
    releases = list_distinct([point.release for point in plot.points])
    shared = altair.Chart(make_data(altair, plot.points)).encode(
        y=altair.Y("group:N", sort=groups, title=None, scale=altair.Scale(paddingInner=0.25)),
        color=_encode_color(altair, releases),
    )
    if len(releases) > 1:
        offset = altair.YOffset("release:N", sort=releases, scale=altair.Scale(paddingOuter=0.2))
        shared = shared.encode(yOffset=offset)
    x = {
        "scale": altair.Scale(domain=_find_domain(plot), nice=False, zero=False),
        "axis": altair.Axis(title=plot.axis, format="~g", tickCount=5, labelFlush=False, titlePadding=8),
    }
    bars = shared.mark_rule(strokeWidth=2.5).encode(x=altair.X("low:Q", **x), x2="high:Q")
    bars = bars.transform_filter("isValid(datum.low) && isValid(datum.high)")
    points = shared.mark_point(filled=True, size=95, opacity=1).encode(
        x=altair.X("value:Q", **x), shape=_encode_shape(altair, releases)
    )
    return altair.layer(*_draw_lines(altair, plot, "x"), bars, points).properties(
        width=CHART_WIDTH,
        height=len(groups) * (44 if len(releases) > 1 else 32),
        padding=choose_padding(groups),
        autosize=altair.AutoSizeParams(type="fit-x", contains="padding"),
    )


def build_curve_chart(altair: Any, plot: CurvePlot) -> Any:
    """Return a line for each release over the share of known users, with a bar at each point."""
    releases = list_distinct([point.release for point in plot.points])
    shares = sorted({point.share for point in plot.points if point.share is not None})
    axis = altair.Axis(
        title="Users whose class is known", format=".0%", values=shares, grid=False, labelFlush=False, titlePadding=8
    )
    y = {"scale": altair.Scale(domain=_find_domain(plot), nice=False), "title": "Advantage"}
    shared = altair.Chart(make_data(altair, plot.points)).encode(
        x=altair.X("share:Q", scale=altair.Scale(domain=[0, 1], nice=False), axis=axis),
        color=_encode_color(altair, releases),
    )
    line = shared.mark_line(strokeWidth=2).encode(y=altair.Y("value:Q", **y))
    points = shared.mark_point(filled=True, size=95, opacity=1).encode(
        y=altair.Y("value:Q", **y), shape=_encode_shape(altair, releases)
    )
    bars = shared.mark_rule(strokeWidth=2).encode(y=altair.Y("low:Q", **y), y2="high:Q")
    bars = bars.transform_filter("isValid(datum.low) && isValid(datum.high)")
    layers = (*_draw_lines(altair, plot, "y"), line, bars, points)
    return altair.layer(*layers).properties(width=CHART_WIDTH - 60, height=230)


def _encode_color(altair: Any, releases: list[str]) -> Any:
    return altair.Color("release:N", scale=build_release_scale(altair, releases, RELEASE_COLORS), legend=None)


def _encode_shape(altair: Any, releases: list[str]) -> Any:
    return altair.Shape("release:N", scale=build_release_scale(altair, releases, RELEASE_SHAPES), legend=None)


def _find_domain(plot: DotPlot | CurvePlot) -> list[float]:
    numbers = [number for point in plot.points for number in (point.value, point.low, point.high)]
    return choose_domain([*numbers, *(line.position for line in plot.lines)])


def _draw_lines(altair: Any, plot: DotPlot | CurvePlot, axis: str) -> list[Any]:
    return [
        altair.Chart(altair.Data(values=[{"position": line.position}]))
        .mark_rule(color=INK, strokeWidth=1.5, strokeDash=dash)
        .encode(**{axis: "position:Q"})
        for line, dash in zip(plot.lines, LINE_DASHES, strict=False)
    ]
