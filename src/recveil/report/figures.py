"""Descriptions of figures: which points, lines and words a chart has, without drawing anything.

A description can be tested as plain data; `charts` draws it. A new figure is a new description and, where no kind fits,
one new drawing function.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from recveil.core.types import Estimate
from recveil.report.formatting import finite_or_none, format_number

__all__ = [
    "ClassMark",
    "CurvePlot",
    "DotPlot",
    "HeatPlot",
    "HeatSquare",
    "IntervalPoint",
    "MapPlot",
    "MethodPoint",
    "Plot",
    "ReferenceLine",
    "RocPlot",
    "RocPoint",
    "ScatterPlot",
    "ScatterPoint",
    "StepPlot",
    "StrengthPlot",
    "StrengthPoint",
    "TradeoffPlot",
    "build_dot_plot",
    "list_distinct",
    "make_point",
]


@dataclass(frozen=True)
class ReferenceLine:
    """A line to compare the points with; without a position it is explained in the legend only."""

    label: str
    position: float | None = None


@dataclass(frozen=True)
class IntervalPoint:
    """A value with its interval, in a group (or at a share of known users) and of a release."""

    group: str
    release: str
    value: float
    low: float | None
    high: float | None
    share: float | None = None


@dataclass(frozen=True)
class ClassMark:
    """One step of a histogram, one cell of a map (`density`, up to `x_end` and `y_end`), or the mean of a class."""

    release: str
    label: str
    x: float
    y: float
    x_end: float | None = None
    y_end: float | None = None
    density: float | None = None


@dataclass(frozen=True)
class HeatSquare:
    """One square of a heat map; `share` sets how full its color is."""

    row: str
    column: str
    share: float
    text: str


@dataclass(frozen=True)
class StrengthPoint:
    """A method at one strength, with the interval of its advantage."""

    method: str
    strength: float
    cost: float
    advantage: float
    is_knee: bool
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class MethodPoint:
    """A method with its intervals both ways; `is_best` where nothing beats it."""

    method: str
    is_best: bool
    advantage: float
    cost: float
    low: float | None = None
    high: float | None = None
    cost_low: float | None = None
    cost_high: float | None = None


@dataclass(frozen=True)
class RocPoint:
    """One point of a ROC curve."""

    attack: str
    fpr: float
    tpr: float


@dataclass(frozen=True)
class ScatterPoint:
    """A point in a plane without units."""

    x: float
    y: float
    group: str


@dataclass(frozen=True, kw_only=True)
class Plot:
    """Base of all figures; `releases`, `classes` and `methods` are the entries of the legend beside its `lines`.

    The page writes the legend: inside a drawing that is scaled down to a telephone, it could not be read.
    """

    id: str
    title: str
    caption: str = ""
    lines: Sequence[ReferenceLine] = ()
    releases: Sequence[str] = ()
    classes: Sequence[str] = ()

    @property
    def methods(self) -> list[str]:
        """Names of the methods or attacks that the marks belong to, in the order of their colors."""
        return []

    @property
    def kind(self) -> str:
        """The kind of figure as one lower-case word, for style sheets."""
        return type(self).__name__.removesuffix("Plot").lower()


@dataclass(frozen=True, kw_only=True)
class DotPlot(Plot):
    """A dot with its interval for each group and release."""

    axis: str
    points: Sequence[IntervalPoint]


@dataclass(frozen=True, kw_only=True)
class CurvePlot(Plot):
    """A line for each release over the share of known users."""

    points: Sequence[IntervalPoint]


@dataclass(frozen=True, kw_only=True)
class StepPlot(Plot):
    """Histograms of the classes, one panel for each release."""

    points: Sequence[ClassMark]


@dataclass(frozen=True, kw_only=True)
class MapPlot(Plot):
    """Positions of the classes in two directions; `ranges` are the ends of the two axes."""

    cells: Sequence[ClassMark]
    means: Sequence[ClassMark]
    ranges: Sequence[Sequence[float]]


@dataclass(frozen=True, kw_only=True)
class HeatPlot(Plot):
    """Squares of rows against columns, both in the order of `labels`."""

    labels: Sequence[str]
    squares: Sequence[HeatSquare]


@dataclass(frozen=True, kw_only=True)
class StrengthPlot(Plot):
    """Privacy against cost: a line for each method from weak to strong."""

    axis: str
    points: Sequence[StrengthPoint]

    @property
    def methods(self) -> list[str]:
        """Names in the order of their colors."""
        return list_distinct([point.method for point in self.points])


@dataclass(frozen=True, kw_only=True)
class TradeoffPlot(Plot):
    """Privacy against cost: a point for each method."""

    axis: str
    points: Sequence[MethodPoint]

    @property
    def methods(self) -> list[str]:
        """Names in the order of their colors."""
        return list_distinct([point.method for point in self.points])


@dataclass(frozen=True, kw_only=True)
class RocPlot(Plot):
    """True over false positive rate of several attacks."""

    points: Sequence[RocPoint]

    @property
    def methods(self) -> list[str]:
        """Names in the order of their colors."""
        return list_distinct([point.attack for point in self.points])


@dataclass(frozen=True, kw_only=True)
class ScatterPlot(Plot):
    """Points of several groups in a plane without units."""

    points: Sequence[ScatterPoint]


def make_point(group: str, release: str, estimate: Estimate | None, share: float | None = None) -> list[IntervalPoint]:
    """Return the estimate as a point, or nothing where it is missing or not finite."""
    value = None if estimate is None else finite_or_none(estimate.value)
    if estimate is None or value is None:
        return []
    return [IntervalPoint(group, release, value, finite_or_none(estimate.low), finite_or_none(estimate.high), share)]


def build_dot_plot(
    plot_id: str,
    title: str,
    points: Sequence[IntervalPoint],
    *,
    axis: str,
    lines: Mapping[str, float | None],
    caption: str,
) -> list[DotPlot]:
    """Describe a dot-and-interval figure.

    Args:
        plot_id: Name of the figure on its page.
        title: Heading.
        points: What is drawn.
        axis: Title of the axis.
        lines: Position of each reference line by its label; None is left out.
        caption: Sentence below the figure.

    Returns:
        The figure, or nothing where there is no point to draw.
    """
    reference = [
        ReferenceLine(f"{label} {format_number(position)}" if position else label, position)
        for label, position in lines.items()
        if position is not None
    ]
    releases = list_distinct([point.release for point in points])
    if not points:
        return []
    return [
        DotPlot(
            id=plot_id,
            title=title,
            caption=caption,
            axis=axis,
            points=points,
            lines=reference,
            releases=releases if len(releases) > 1 else (),
        )
    ]


def list_distinct(names: Sequence[str]) -> list[str]:
    """Return each name once, in the order of their first appearance."""
    return list(dict.fromkeys(names))
