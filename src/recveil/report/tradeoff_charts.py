"""Charts of several methods or attacks: privacy against cost, ROC curves, scatter plots."""

from __future__ import annotations

from typing import Any

from recveil.report.chart_style import (
    CHART_WIDTH,
    CLASS_COLORS,
    CLASS_DASHES,
    INK,
    LINE_DASHES,
    POINT_SHAPES,
    build_method_scales,
    make_data,
)
from recveil.report.figures import RocPlot, ScatterPlot, StrengthPlot, TradeoffPlot, list_distinct

__all__ = ["build_roc_chart", "build_scatter_chart", "build_strength_chart", "build_tradeoff_chart"]

COST_TICKS = [-20, -10, -5, -2, 0, 2, 5, 10, 20, 50, 100]
ADVANTAGE_TICKS = [0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.6, 0.8, 1]


def build_strength_chart(altair: Any, plot: StrengthPlot) -> Any:
    """Return a line for each method from weak to strong over its cost, with a ring around the knee."""
    colors, dashes = build_method_scales(altair, plot.methods, CLASS_DASHES)
    shared = altair.Chart(make_data(altair, plot.points)).encode(
        x=altair.X("cost:Q", title=plot.axis, axis=altair.Axis(format="~g", tickCount=6, titlePadding=8)),
        y=altair.Y("advantage:Q", title="Largest advantage of an attacker"),
        color=altair.Color("method:N", scale=colors, legend=None),
        order="strength:Q",
    )
    line = shared.mark_line(strokeWidth=2).encode(strokeDash=altair.StrokeDash("method:N", scale=dashes, legend=None))
    # Steps of a line that are smaller than these bars are chance.
    bars = shared.mark_rule(strokeWidth=1, opacity=0.55).transform_filter("isValid(datum.low)")
    bars = bars.encode(y=altair.Y("low:Q"), y2="high:Q")
    points = shared.mark_point(filled=True, size=60, opacity=1)
    ring = shared.transform_filter("datum.is_knee").mark_point(size=260, strokeWidth=2, filled=False)
    return altair.layer(bars, line, points, ring).properties(width=CHART_WIDTH + 80, height=300)


def build_tradeoff_chart(altair: Any, plot: TradeoffPlot) -> Any:
    """Return a point for each method with its intervals; a dashed line joins those that nothing beats."""
    colors, shapes = build_method_scales(altair, plot.methods, POINT_SHAPES)
    # Stretched near zero, where the methods worth having lie close together.
    x = {
        "title": plot.axis,
        "axis": altair.Axis(format="~g", values=COST_TICKS, titlePadding=8),
        "scale": altair.Scale(type="symlog", constant=2, nice=False),
    }
    y = {
        "title": "Advantage of the best attacker",
        "axis": altair.Axis(format="~g", values=ADVANTAGE_TICKS),
        "scale": altair.Scale(type="sqrt", nice=True),
    }
    at_cost, at_advantage = altair.X("cost:Q", **x), altair.Y("advantage:Q", **y)
    shared = altair.Chart(make_data(altair, plot.points)).encode(
        color=altair.Color("method:N", scale=colors, legend=None),
    )
    line = altair.Chart(make_data(altair, [point for point in plot.points if point.is_best]))
    line = line.mark_line(color=INK, strokeWidth=1, strokeDash=LINE_DASHES[0], opacity=0.6)
    bars = shared.mark_rule(strokeWidth=1.5, opacity=0.75).transform_filter("isValid(datum.low)")
    points = shared.mark_point(filled=True, size=75, opacity=1).encode(
        x=at_cost, y=at_advantage, shape=altair.Shape("method:N", scale=shapes, legend=None)
    )
    return altair.layer(
        line.encode(x=at_cost, y=at_advantage, order="cost:Q"),
        bars.encode(x=altair.X("cost_low:Q", **x), x2="cost_high:Q", y=at_advantage),
        bars.encode(x=at_cost, y=altair.Y("low:Q", title=y["title"]), y2="high:Q"),
        points,
    ).properties(width=CHART_WIDTH, height=300)


def build_roc_chart(altair: Any, plot: RocPlot) -> Any:
    """Return true over false positive rate on logarithmic scales; the dashed line is chance."""
    colors, dashes = build_method_scales(altair, plot.methods, CLASS_DASHES)
    smallest_fpr = min([0.1, *(point.fpr for point in plot.points if point.fpr > 0)])
    smallest_tpr = min([0.1, *(point.tpr for point in plot.points if point.tpr > 0)])
    axis = {"format": "~g", "values": [0.001, 0.01, 0.1, 1], "titlePadding": 8}
    x = altair.X(
        "fpr:Q",
        scale=altair.Scale(type="log", domain=[smallest_fpr, 1], nice=False),
        axis=altair.Axis(title="Non-members accused (false positive rate)", **axis),
    )
    y = altair.Y(
        "tpr:Q",
        scale=altair.Scale(type="log", domain=[smallest_tpr, 1], nice=False),
        axis=altair.Axis(title="Members found (true positive rate)", **axis),
    )
    drawn = [point for point in plot.points if point.fpr > 0 and point.tpr > 0]
    lines = altair.Chart(make_data(altair, drawn)).mark_line(strokeWidth=2)
    lines = lines.encode(
        x=x,
        y=y,
        color=altair.Color("attack:N", scale=colors, legend=None),
        strokeDash=altair.StrokeDash("attack:N", scale=dashes, legend=None),
    )
    corner = max(smallest_fpr, smallest_tpr)
    ends = [{"fpr": corner, "tpr": corner}, {"fpr": 1, "tpr": 1}]
    chance = altair.Chart(altair.Data(values=ends)).mark_line(color=INK, strokeWidth=1.5, strokeDash=LINE_DASHES[0])
    return altair.layer(chance.encode(x=x, y=y), lines).properties(width=CHART_WIDTH, height=320)


def build_scatter_chart(altair: Any, plot: ScatterPlot) -> Any:
    """Return a point for each row in the color and shape of its group."""
    groups = list_distinct([point.group for point in plot.points])
    colors, shapes = (altair.Scale(domain=groups, range=marks[: len(groups)]) for marks in (CLASS_COLORS, POINT_SHAPES))
    key = altair.Legend(title=None, orient="top", labelColor=INK)
    plane = {"axis": None, "scale": altair.Scale(zero=False)}
    chart = altair.Chart(make_data(altair, plot.points)).mark_point(filled=True, size=26, opacity=0.75)
    return chart.encode(
        x=altair.X("x:Q", **plane),
        y=altair.Y("y:Q", **plane),
        color=altair.Color("group:N", scale=colors, legend=key),
        shape=altair.Shape("group:N", scale=shapes, legend=key),
    ).properties(width=260, height=240)
