"""The privacy-utility frontier of a cloak: a figure and a table of all methods at several strengths."""

from __future__ import annotations

import math
from dataclasses import dataclass

from recveil.core.result_parts import Frontier, FrontierPoint
from recveil.core.types import Estimate
from recveil.report.figures import Plot, StrengthPlot, StrengthPoint, list_distinct
from recveil.report.formatting import ShownEstimate, finite_or_none, format_estimate, format_number, format_text

__all__ = ["FrontierRow", "FrontierSection", "build_frontier_section"]

UNDEFENDED = "none"
"""Method of the point that stands for the undefended table."""


@dataclass(frozen=True)
class FrontierRow:
    """One method at one strength, ready to print."""

    method: str
    strength: str
    advantage: ShownEstimate
    cost: str
    displacement: str
    seconds: str
    is_knee: bool


@dataclass(frozen=True)
class FrontierSection:
    """Figure and table; `excluded` says which methods are missing, and why."""

    plot: StrengthPlot
    cost_measure: str
    rows: list[FrontierRow]
    excluded: str

    @property
    def plots(self) -> list[Plot]:
        """The figure as a list."""
        return [self.plot]


def build_frontier_section(frontier: Frontier | None) -> FrontierSection | None:
    """Return figure and table; None where fewer than two points were measured."""
    points = [] if frontier is None else [point for point in frontier.points if _is_measured(point)]
    if frontier is None or len(points) < 2:
        return None
    knee = frontier.points[frontier.knee]
    measure = format_text(frontier.cost_measure)
    measure = measure[:1].upper() + measure[1:]
    excluded = [f"{format_text(name)} ({format_text(reason)})" for name, reason in frontier.excluded.items()]
    return FrontierSection(
        plot=StrengthPlot(
            id="frontier",
            title="Privacy against cost, by method and strength",
            caption="Lower is more private, further left is cheaper. Each line starts at the undefended table and ends "
            "at full strength; steps smaller than the 95 % intervals are chance. The ring marks the knee.",
            axis=f"{measure} (share)",
            points=_list_points(points, knee),
        ),
        cost_measure=measure,
        rows=[_build_row(point, point is knee) for point in points],
        excluded=f"Excluded: {'; '.join(excluded)}." if excluded else "",
    )


def _is_measured(point: FrontierPoint) -> bool:
    return finite_or_none(point.cost) is not None and finite_or_none(point.advantage) is not None


def _list_points(points: list[FrontierPoint], knee: FrontierPoint) -> list[StrengthPoint]:
    """Return one point for each method and strength; every method starts at the undefended table."""
    start = next((point for point in points if point.method == UNDEFENDED), None)
    methods = [point for point in points if point.method != UNDEFENDED]
    starts = [(name, start) for name in list_distinct([point.method for point in methods]) if start is not None]
    return [
        StrengthPoint(
            format_text(name), point.strength, point.cost, point.advantage, point is knee, *_find_interval(point)
        )
        for name, point in [*starts, *((point.method, point) for point in methods)]
    ]


def _find_interval(point: FrontierPoint) -> tuple[float | None, float | None]:
    estimate = _find_estimate(point)
    return finite_or_none(estimate.low), finite_or_none(estimate.high)


def _find_estimate(point: FrontierPoint) -> Estimate:
    """Return the advantage of the attribute that is drawn, the largest one, with its interval where it is known."""
    estimates = [target.advantage for target in point.targets.values()]
    unknown = Estimate(point.advantage, math.nan, math.nan, 0)
    return next((estimate for estimate in estimates if estimate.value == point.advantage), unknown)


def _build_row(point: FrontierPoint, is_knee: bool) -> FrontierRow:
    return FrontierRow(
        method=format_text(point.method),
        strength=format_number(point.strength, 2),
        advantage=format_estimate(_find_estimate(point)),
        cost=format_number(point.cost),
        displacement=format_number(point.displacement),
        seconds=format_number(point.seconds, 2),
        is_knee=is_knee,
    )
