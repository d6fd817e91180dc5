"""Colors, shapes and scales that all charts share; text takes its color from the page around it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

__all__ = [
    "CHART_WIDTH",
    "CLASS_COLORS",
    "CLASS_DASHES",
    "INK",
    "LINE_DASHES",
    "POINT_SHAPES",
    "RELEASE_COLORS",
    "RELEASE_SHAPES",
    "apply_style",
    "build_method_scales",
    "build_release_scale",
    "choose_domain",
    "choose_padding",
    "make_data",
]

# Apart for every kind of color vision, and at least 3:1 against both the light and the dark page.
RELEASE_COLORS = {"before": "#d9730d", "after": "#2b84d2"}
RELEASE_SHAPES = {"before": "circle", "after": "diamond"}
# Classes have colors of their own, so that none is taken for a release; lines differ in their dashes too.
CLASS_COLORS = ("#12958a", "#c74b8f", "#7d6fdc", "#8a8420", "#c8553d", "#6f8299")
CLASS_DASHES: tuple[list[float], ...] = ([1, 0], [6, 3], [2, 2])
# The first reference line of a figure is dashed, the second dotted; the legend on the page says which is which.
LINE_DASHES: tuple[list[float], ...] = ([6, 4], [1.5, 3])
POINT_SHAPES = ("circle", "square", "triangle-up")
INK = "currentColor"
CHART_WIDTH = 440
MAX_LABEL_PIXELS = 150


def apply_style(chart: Any) -> Any:
    """Return the chart with the colors and fonts of the page."""
    axis = {"labelColor": INK, "titleColor": INK, "domainColor": INK, "tickColor": INK, "gridColor": INK}
    return (
        chart.properties(background="transparent")
        .configure(aria=False, font="sans-serif")
        .configure_axis(**axis, gridOpacity=0.13, labelFontSize=12, titleFontSize=12, titleFontWeight="normal")
        .configure_axisY(labelLimit=MAX_LABEL_PIXELS, domain=False, ticks=False, labelPadding=8)
        .configure_header(labelColor=INK, labelFontSize=12, labelFontWeight="bold", title=None)
        .configure_legend(title=None, labelColor=INK, labelLimit=220)
        .configure_view(stroke=None)
    )


def make_data(altair: Any, rows: Iterable[DataclassInstance]) -> Any:
    """Return the rows as data of a chart."""
    return altair.Data(values=[asdict(row) for row in rows])


def choose_padding(labels: Sequence[str]) -> dict[str, float]:
    """Return the space around a drawing; more for long labels, since the reader's font may be wider."""
    widest = min(MAX_LABEL_PIXELS, 7 * max(map(len, labels)))
    return {"left": 4 + 0.25 * widest, "right": 12, "top": 6, "bottom": 4}


def choose_domain(numbers: Iterable[float | None]) -> list[float]:
    """Return ends around all numbers with a little space, cut at round numbers."""
    drawn = [number for number in numbers if number is not None]
    low, high = min(drawn), max(drawn)
    span = (high - low) or max(abs(high), 1e-3)
    step = 10.0 ** math.floor(math.log10(span)) / 4
    floor = 0.0 if low == 0 else math.floor((low - 0.02 * span) / step) * step
    return [floor, 0.0 if high == 0 else math.ceil((high + 0.02 * span) / step) * step]


def build_release_scale(altair: Any, releases: Sequence[str], values: Mapping[str, str]) -> Any:
    """Return the scale that gives each release its color or shape."""
    return altair.Scale(domain=releases, range=[values.get(name, values["after"]) for name in releases])


def build_method_scales(altair: Any, methods: Sequence[str], marks: Sequence[Any]) -> tuple[Any, Any]:
    """Return the scales of color and of another mark; the mark changes once all colors are used."""
    colors = [CLASS_COLORS[i % len(CLASS_COLORS)] for i in range(len(methods))]
    other_marks = [marks[i // len(CLASS_COLORS) % len(marks)] for i in range(len(methods))]
    return altair.Scale(domain=methods, range=colors), altair.Scale(domain=methods, range=other_marks)
