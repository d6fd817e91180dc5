"""Draws the figures that `figures` describes, as static SVG that takes its text colour from the page around it.

Static, because a report is read where scripts do not run: in the viewer of a CI system, in a mail, on paper.
"""

from __future__ import annotations

import html
import math
import re
from collections.abc import Mapping
from typing import Any

from recveil.errors import MissingExtra

__all__ = ["COLORS", "draw"]

# Apart for every kind of colour vision, and at least 3:1 against both the light and the dark page.
COLORS = {"before": "#d9730d", "after": "#2b84d2"}
SHAPES = {"before": "circle", "after": "diamond"}
# The first line of a figure is dashed, the second dotted; the key on the page says which is which.
DASHES: tuple[list[float], ...] = ([6, 4], [1.5, 3])
INK = "currentColor"
WIDTH = 440
LABEL_LIMIT = 150
TEXT_FITS = 8  # classes up to which a cell of the heat map has room for its number

Figure = Mapping[str, Any]


def draw(figure: Figure) -> str:
    """The figure as one `<svg>` element, fit to be put into a page."""
    altair, vl_convert = _libraries()
    chart = {"dots": _dots, "heat": _heat}[figure["kind"]](altair, figure)
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
    colors = altair.Scale(domain=series, range=[COLORS.get(name, COLORS["after"]) for name in series])
    shapes = altair.Scale(domain=series, range=[SHAPES.get(name, SHAPES["after"]) for name in series])
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
