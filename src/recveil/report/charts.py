"""Draws the figures that `figures` describes, as static SVG that takes its text colour from the page around it.

Static, because a report is read where scripts do not run: in the viewer of a CI system, in a mail, on paper.
"""

from __future__ import annotations

import html
import math
import re
from collections.abc import Mapping
from typing import Any

from recveil.core.errors import MissingExtra

__all__ = ["CLASS_COLORS", "COLORS", "draw"]

# Apart for every kind of colour vision, and at least 3:1 against both the light and the dark page.
COLORS = {"before": "#d9730d", "after": "#2b84d2"}
# Classes have colours of their own, so that none is taken for a release; lines differ in their dashes too.
CLASS_COLORS = ("#12958a", "#c74b8f", "#7d6fdc", "#8a8420", "#c8553d", "#6f8299")
CLASS_DASHES: tuple[list[float], ...] = ([1, 0], [6, 3], [2, 2])
SHAPES = {"before": "circle", "after": "diamond"}
# The first line of a figure is dashed, the second dotted; the key on the page says which is which.
DASHES: tuple[list[float], ...] = ([6, 4], [1.5, 3])
INK = "currentColor"
WIDTH = 440
TICKS = [-20, -10, -5, -2, 0, 2, 5, 10, 20, 50, 100]
POINTS = ("circle", "square", "triangle-up")
LABEL_LIMIT = 150
TEXT_FITS = 8  # classes up to which a cell of the heat map has room for its number

Figure = Mapping[str, Any]


def draw(figure: Figure) -> str:
    """The figure as one `<svg>` element, fit to be put into a page."""
    altair, vl_convert = _libraries()
    kinds = {"dots": _dots, "heat": _heat, "curve": _curve, "steps": _steps, "maps": _maps, "frontier": _frontier}
    kinds |= {"roc": _roc, "bands": _bands, "cloud": _cloud}
    chart = kinds[figure["kind"]](altair, figure)
    svg = vl_convert.vegalite_to_svg(_styled(altair, chart).to_dict(), allowed_base_urls=[])
    return _embeddable(svg, figure["title"])


def _libraries() -> tuple[Any, Any]:
    try:
        import altair
        import vl_convert
    except ImportError as error:
        raise MissingExtra(
            f"The report needs the package {error.name}, which is not installed. "
            "Install it with: pip install 'recveil[report]'"
        ) from error
    return altair, vl_convert


def _embeddable(svg: str, title: str) -> str:
    """The same drawing with a name for those who cannot see it, scaling with the page, and no namespace addresses."""
    opening = re.match(r"<svg[^>]*>", svg)
    size = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg)
    assert opening is not None
    assert size is not None
    name, (width, height) = html.escape(title, quote=True), size.groups()
    head = f'<svg role="img" aria-label="{name}" width="{width}" height="{height}" viewBox="0 0 {width} {height}">'
    return f"{head}<title>{name}</title>{svg[opening.end() :]}"


def _styled(altair: Any, chart: Any) -> Any:
    axis = {"labelColor": INK, "titleColor": INK, "domainColor": INK, "tickColor": INK, "gridColor": INK}
    return (
        chart.properties(background="transparent")
        .configure(aria=False, font="sans-serif")
        .configure_axis(**axis, gridOpacity=0.13, labelFontSize=12, titleFontSize=12, titleFontWeight="normal")
        .configure_axisY(labelLimit=LABEL_LIMIT, domain=False, ticks=False, labelPadding=8)
        .configure_header(labelColor=INK, labelFontSize=12, labelFontWeight="bold", title=None)
        .configure_view(stroke=None)
    )


def _padding(labels: list[str]) -> dict[str, float]:
    """Room around the drawing; more for long labels, since the reader's font may be wider than the one measured."""
    widest = min(LABEL_LIMIT, 7 * max(map(len, labels)))
    return {"left": 4 + 0.25 * widest, "right": 12, "top": 6, "bottom": 4}


def _dots(altair: Any, figure: Figure) -> Any:
    """One row per group, a dot and a bar per series in it, and the reference lines; the key is part of the page."""
    rows = figure["rows"]
    groups, series = _unique(rows, "group"), _unique(rows, "series")
    colors, shapes = _by_release(altair, series, COLORS), _by_release(altair, series, SHAPES)
    shared = altair.Chart(altair.Data(values=rows)).encode(
        y=altair.Y("group:N", sort=groups, title=None, scale=altair.Scale(paddingInner=0.25)),
        color=altair.Color("series:N", scale=colors, legend=None),
    )
    if len(series) > 1:
        shared = shared.encode(yOffset=altair.YOffset("series:N", sort=series, scale=altair.Scale(paddingOuter=0.2)))
    x = {
        "scale": altair.Scale(domain=_domain(figure), nice=False, zero=False),
        "axis": altair.Axis(title=figure["axis"], format="~g", tickCount=5, labelFlush=False, titlePadding=8),
    }
    bars = shared.mark_rule(strokeWidth=2.5).encode(x=altair.X("low:Q", **x), x2="high:Q")
    bars = bars.transform_filter("isValid(datum.low) && isValid(datum.high)")
    points = shared.mark_point(filled=True, size=95, opacity=1).encode(
        x=altair.X("value:Q", **x), shape=altair.Shape("series:N", scale=shapes, legend=None)
    )
    lines = [_reference_line(altair, line["at"], dash) for line, dash in zip(figure["lines"], DASHES, strict=False)]
    return altair.layer(*lines, bars, points).properties(
        width=WIDTH,
        height=len(groups) * (44 if len(series) > 1 else 32),
        padding=_padding(groups),
        autosize=altair.AutoSizeParams(type="fit-x", contains="padding"),
    )


def _by_release(altair: Any, series: list[str], values: Mapping[str, str]) -> Any:
    return altair.Scale(domain=series, range=[values.get(name, values["after"]) for name in series])


def _reference_line(altair: Any, at: float, dash: list[float]) -> Any:
    rule = altair.Chart(altair.Data(values=[{"at": at}])).mark_rule(color=INK, strokeWidth=1.5, strokeDash=dash)
    return rule.encode(x="at:Q")


def _domain(figure: Figure) -> list[float]:
    """All that is drawn and a little room around it, cut at round numbers."""
    rows = figure["rows"]
    drawn = [row[key] for row in rows for key in ("value", "low", "high") if row[key] is not None]
    drawn += [line["at"] for line in figure["lines"]]
    low, high = min(drawn), max(drawn)
    span = (high - low) or max(abs(high), 1e-3)
    step = 10.0 ** math.floor(math.log10(span)) / 4
    floor = 0.0 if low == 0 else math.floor((low - 0.02 * span) / step) * step
    return [floor, 0.0 if high == 0 else math.ceil((high + 0.02 * span) / step) * step]


def _curve(altair: Any, figure: Figure) -> Any:
    """A line for each series over the share of known users, its interval as a bar at each point."""
    series = _unique(figure["rows"], "series")
    colors, shapes = _by_release(altair, series, COLORS), _by_release(altair, series, SHAPES)
    shares = sorted(set(_unique(figure["rows"], "share")))
    across = altair.Axis(
        title="Users whose class is known", format=".0%", values=shares, grid=False, labelFlush=False, titlePadding=8
    )
    y = {"scale": altair.Scale(domain=_domain(figure), nice=False), "title": "Advantage"}
    shared = altair.Chart(altair.Data(values=figure["rows"])).encode(
        x=altair.X("share:Q", scale=altair.Scale(domain=[0, 1], nice=False), axis=across),
        color=altair.Color("series:N", scale=colors, legend=None),
    )
    line = shared.mark_line(strokeWidth=2).encode(y=altair.Y("value:Q", **y))
    points = shared.mark_point(filled=True, size=95, opacity=1).encode(
        y=altair.Y("value:Q", **y), shape=altair.Shape("series:N", scale=shapes, legend=None)
    )
    bars = shared.mark_rule(strokeWidth=2).encode(y=altair.Y("low:Q", **y), y2="high:Q")
    bars = bars.transform_filter("isValid(datum.low) && isValid(datum.high)")
    lines = [
        altair.Chart(altair.Data(values=[{"at": line["at"]}]))
        .mark_rule(color=INK, strokeWidth=1.5, strokeDash=dash)
        .encode(y="at:Q")
        for line, dash in zip(figure["lines"], DASHES, strict=False)
    ]
    return altair.layer(*lines, line, bars, points).properties(width=WIDTH - 60, height=230)


def _by_class(altair: Any, figure: Figure, channel: str) -> Any:
    """Colours or dashes of the classes, the same in every figure of an attribute."""
    values: tuple[Any, ...] = CLASS_DASHES if channel == "StrokeDash" else CLASS_COLORS
    of = [values[i % len(values)] for i in range(len(figure["classes"]))]
    scale = altair.Scale(domain=figure["classes"], range=of)
    return getattr(altair, channel)("class:N", scale=scale, legend=None)


def _steps(altair: Any, figure: Figure) -> Any:
    """Histograms as outlines on one axis, one panel for each release."""
    rows, releases = figure["rows"], _unique(figure["rows"], "release")
    span = altair.Scale(domain=[min(row["x"] for row in rows), max(row["x"] for row in rows)], nice=False)
    axis = altair.Axis(title="Standard deviations within a class", tickCount=6, labelFlush=False, titlePadding=8)
    shared = altair.Chart().encode(
        x=altair.X("x:Q", scale=span, axis=axis),
        y=altair.Y("y:Q", stack=None, title=None, axis=altair.Axis(labels=False, grid=False)),
    )
    color = _by_class(altair, figure, "Color")
    area = shared.mark_area(interpolate="step-after", opacity=0.16).encode(color=color)
    line = shared.mark_line(interpolate="step-after", strokeWidth=2, clip=True).encode(
        color=color, strokeDash=_by_class(altair, figure, "StrokeDash")
    )
    panel = altair.layer(area, line, data=altair.Data(values=rows)).properties(
        width=WIDTH - 30, height=200 if len(releases) == 1 else 120
    )
    return _panels(altair, panel, figure)


def _maps(altair: Any, figure: Figure) -> Any:
    """One panel for each class and release: cells the fuller the denser, and a dot at the mean of the class."""
    rows, classes = figure["rows"], figure["classes"]
    side = min(190, 2 * WIDTH // max(len(classes), 2))
    scales = {
        axis: altair.Scale(domain=ends, nice=False, zero=False)
        for axis, ends in zip(("x", "y"), figure["range"], strict=True)
    }
    shared = altair.Chart().encode(
        x=altair.X("x:Q", scale=scales["x"], axis=altair.Axis(title=None, tickCount=5)),
        y=altair.Y("y:Q", scale=scales["y"], axis=altair.Axis(title=None, tickCount=5)),
    )
    # At least 8 % opaque: an empty cell is one that is not shown.
    densest = max((row["density"] for row in rows if row["part"] == "cell"), default=1)
    fuller = altair.FillOpacity("density:Q", scale=altair.Scale(domain=[0, densest], range=[0.08, 0.95]), legend=None)
    fill = _by_class(altair, figure, "Fill")
    cells = shared.mark_rect(stroke=None).transform_filter("datum.part == 'cell'")
    cells = cells.encode(x2="x2:Q", y2="y2:Q", fill=fill, fillOpacity=fuller)
    means = shared.mark_point(shape="circle", filled=True, fill=INK, size=42, opacity=1)
    means = means.transform_filter("datum.part == 'mean'")
    panel = altair.layer(cells, means, data=altair.Data(values=rows)).properties(width=side, height=side)
    return _panels(altair, panel, figure, column=altair.Column("class:N", sort=classes, title=None))


def _frontier(altair: Any, figure: Figure) -> Any:
    """A line for each method from weak to strong, over what it costs; a ring around the knee."""
    methods = _unique(figure["rows"], "method")
    colors = [CLASS_COLORS[i % len(CLASS_COLORS)] for i in range(len(methods))]
    dashes = [CLASS_DASHES[i // len(CLASS_COLORS) % len(CLASS_DASHES)] for i in range(len(methods))]
    key = altair.Legend(title=None, orient="right", symbolType="stroke", labelColor=INK, symbolStrokeWidth=3)
    shared = altair.Chart(altair.Data(values=figure["rows"])).encode(
        x=altair.X("cost:Q", title=figure["axis"], axis=altair.Axis(format="~g", tickCount=6, titlePadding=8)),
        y=altair.Y("advantage:Q", title="Largest advantage of an attacker"),
        color=altair.Color("method:N", scale=altair.Scale(domain=methods, range=colors), legend=key),
        order="strength:Q",
    )
    line = shared.mark_line(strokeWidth=2).encode(
        strokeDash=altair.StrokeDash("method:N", scale=altair.Scale(domain=methods, range=dashes), legend=None)
    )
    points = shared.mark_point(filled=True, size=60, opacity=1)
    ring = shared.transform_filter("datum.knee").mark_point(size=260, strokeWidth=2, filled=False)
    return altair.layer(line, points, ring).properties(width=2 * WIDTH - 160, height=300)


def _bands(altair: Any, figure: Figure) -> Any:
    """A point for each method with its intervals both ways; a dashed line joins those that nothing beats."""
    methods = _unique(figure["rows"], "method")
    colors = [CLASS_COLORS[i % len(CLASS_COLORS)] for i in range(len(methods))]
    shapes = [POINTS[i // len(CLASS_COLORS) % len(POINTS)] for i in range(len(methods))]
    key = altair.Legend(title=None, orient="right", labelColor=INK, symbolSize=90, labelLimit=220)
    # Stretched near zero, where the methods worth having lie close together.
    x = {"title": figure["axis"], "axis": altair.Axis(format="~g", values=TICKS, titlePadding=8)}
    x["scale"] = altair.Scale(type="symlog", constant=2, nice=False)
    y = {"title": "Advantage of the best attacker", "scale": altair.Scale(type="sqrt", nice=True)}
    y["axis"] = altair.Axis(format="~g", values=[0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.6, 0.8, 1])
    shared = altair.Chart(altair.Data(values=figure["rows"])).encode(
        color=altair.Color("method:N", scale=altair.Scale(domain=methods, range=colors), legend=key),
    )
    line = altair.Chart(altair.Data(values=[row for row in figure["rows"] if row["best"]]))
    line = line.mark_line(color=INK, strokeWidth=1, strokeDash=DASHES[0], opacity=0.6).encode(
        x=altair.X("cost:Q", **x), y=altair.Y("advantage:Q", **y), order="cost:Q"
    )
    bars = shared.mark_rule(strokeWidth=1.5, opacity=0.75).transform_filter("isValid(datum.low)")
    across = bars.encode(x=altair.X("cost_low:Q", **x), x2="cost_high:Q", y=altair.Y("advantage:Q", **y))
    along = bars.encode(
        x=altair.X("cost:Q", **x), y=altair.Y("low:Q", title="Advantage of the best attacker"), y2="high:Q"
    )
    points = shared.mark_point(filled=True, size=75, opacity=1).encode(
        x=altair.X("cost:Q", **x),
        y=altair.Y("advantage:Q", **y),
        shape=altair.Shape("method:N", scale=altair.Scale(domain=methods, range=shapes), legend=key),
    )
    return altair.layer(line, across, along, points).properties(width=WIDTH - 140, height=280)


def _roc(altair: Any, figure: Figure) -> Any:
    """The share of members found over the share of others accused, both on a logarithmic scale; dashed is chance."""
    rows = figure["rows"]
    attacks = _unique(rows, "attack")
    colors = [CLASS_COLORS[i % len(CLASS_COLORS)] for i in range(len(attacks))]
    dashes = [CLASS_DASHES[i // len(CLASS_COLORS) % len(CLASS_DASHES)] for i in range(len(attacks))]
    key = altair.Legend(title=None, orient="right", symbolType="stroke", labelColor=INK, symbolStrokeWidth=3)
    axis = {"format": "~g", "values": [0.001, 0.01, 0.1, 1], "titlePadding": 8}
    scales = {
        name: altair.Scale(
            type="log", domain=[min([0.1, *(row[name] for row in rows if row[name] > 0)]), 1], nice=False
        )
        for name in ("fpr", "tpr")
    }
    x = altair.X("fpr:Q", scale=scales["fpr"], axis=altair.Axis(title="Non-members accused", **axis))
    y = altair.Y("tpr:Q", scale=scales["tpr"], axis=altair.Axis(title="Members found", **axis))
    lines = altair.Chart(altair.Data(values=[row for row in rows if row["tpr"] > 0])).mark_line(strokeWidth=2)
    lines = lines.encode(
        x=x,
        y=y,
        color=altair.Color("attack:N", scale=altair.Scale(domain=attacks, range=colors), legend=key),
        strokeDash=altair.StrokeDash("attack:N", scale=altair.Scale(domain=attacks, range=dashes), legend=None),
    )
    corner = max(scale.domain[0] for scale in scales.values())
    ends = [{"fpr": corner, "tpr": corner}, {"fpr": 1, "tpr": 1}]
    chance = altair.Chart(altair.Data(values=ends)).mark_line(color=INK, strokeWidth=1.5, strokeDash=DASHES[0])
    return altair.layer(chance.encode(x=x, y=y), lines).properties(width=2 * WIDTH - 420, height=340)


def _cloud(altair: Any, figure: Figure) -> Any:
    """A point for each row, in the colour and shape of its group; the plane has no units."""
    groups = _unique(figure["rows"], "group")
    colors, shapes = (altair.Scale(domain=groups, range=marks[: len(groups)]) for marks in (CLASS_COLORS, POINTS))
    key = altair.Legend(title=None, orient="top", labelColor=INK)
    plane = {"axis": None, "scale": altair.Scale(zero=False)}
    chart = altair.Chart(altair.Data(values=figure["rows"])).mark_point(filled=True, size=26, opacity=0.75)
    return chart.encode(
        x=altair.X("x:Q", **plane),
        y=altair.Y("y:Q", **plane),
        color=altair.Color("group:N", scale=colors, legend=key),
        shape=altair.Shape("group:N", scale=shapes, legend=key),
    ).properties(width=260, height=240)


def _panels(altair: Any, panel: Any, figure: Figure, **columns: Any) -> Any:
    """The panel once for each release that is compared, one below the other on the same axes."""
    releases = _unique(figure["rows"], "release")
    if len(releases) > 1:
        header = altair.Header(title=None, labelOrient="top", labelAnchor="start", labelAngle=0, labelPadding=2)
        columns["row"] = altair.Row("release:N", sort=releases, title=None, header=header)
    return panel.facet(**columns, spacing=14) if columns else panel


def _heat(altair: Any, figure: Figure) -> Any:
    """A square of true class against guessed class; the fuller the colour the larger the share."""
    labels = figure["labels"]
    size = max(16, min(72, 300 // len(labels)))
    upright = len(labels) <= 5 and max(map(len, labels)) <= 9
    axis = altair.Axis(
        orient="top", labelAngle=0 if upright else -40, labelLimit=110, labelPadding=6, domain=False, ticks=False
    )
    cells = altair.Chart(altair.Data(values=figure["cells"])).encode(
        x=altair.X("guess:N", sort=labels, title=None, axis=axis, scale=altair.Scale(domain=labels)),
        y=altair.Y("truth:N", sort=labels, title=None, scale=altair.Scale(domain=labels)),
    )
    # At most 70 % opaque: the number on top is in the colour of the text, dark or light, and must stay readable.
    opacity = altair.FillOpacity("share:Q", scale=altair.Scale(domain=[0, 1], range=[0.04, 0.7]), legend=None)
    squares = cells.mark_rect(fill=COLORS["after"], stroke=INK, strokeOpacity=0.15).encode(fillOpacity=opacity)
    numbers = cells.mark_text(fontSize=13, color=INK).encode(text="text:N")
    layers = [squares, numbers] if len(labels) <= TEXT_FITS else [squares]
    side = size * len(labels)
    return altair.layer(*layers).properties(width=side, height=side, padding=_padding(labels))


def _unique(rows: list[dict[str, Any]], key: str) -> list[str]:
    return list(dict.fromkeys(row[key] for row in rows))
