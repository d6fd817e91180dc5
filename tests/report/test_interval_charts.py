from __future__ import annotations

import pytest

from recveil.core.results import CloakResult
from recveil.report.chart_style import RELEASE_COLORS
from recveil.report.charts import draw
from recveil.report.figures import DotPlot, IntervalPoint, ReferenceLine
from recveil.report.leak_figures import describe_leaks


def make_dots(*points: IntervalPoint, lines: tuple[ReferenceLine, ...] = ()) -> DotPlot:
    return DotPlot(id="x", title="A title", axis="Balanced accuracy", points=points, lines=lines)


def test_one_dot_per_point_one_bar_per_interval_one_rule_per_line(read_svg) -> None:
    points = [IntervalPoint("a", "", 0.6, 0.5, 0.7), IntervalPoint("b", "", 0.7, None, None)]
    points.append(IntervalPoint("c", "", 0.55, 0.5, 0.6))
    svg = read_svg(draw(make_dots(*points, lines=(ReferenceLine("chance", 0.5),))))
    dots = svg.marks("symbol")
    assert len(dots) == 3
    assert len(svg.marks("rule")) == 2 + 1
    across = [float(mark.get("transform").removeprefix("translate(").split(",")[0]) for mark in dots]
    assert across[2] < across[0] < across[1]


def test_before_and_after_differ_in_color_shape_and_place(read_svg) -> None:
    points = (IntervalPoint("a", "before", 0.8, 0.7, 0.9), IntervalPoint("a", "after", 0.5, 0.4, 0.6))
    before, after = read_svg(draw(make_dots(*points))).marks("symbol")
    assert (before.get("fill"), after.get("fill")) == (RELEASE_COLORS["before"], RELEASE_COLORS["after"])
    assert before.get("d") != after.get("d")
    assert before.get("transform") != after.get("transform")


@pytest.mark.parametrize("numbers", [(0.5, 0.5, 0.5), (0.0, 0.0, 0.0), (1.0, 0.9, 1.0), (-0.003, -0.01, 0.004)])
def test_one_point_alone_can_be_drawn(numbers: tuple[float, float, float], read_svg) -> None:
    svg = draw(make_dots(IntervalPoint("only", "", *numbers)))
    assert len(read_svg(svg).marks("symbol")) == 1
    assert "NaN" not in svg


def test_a_curve_has_a_dot_and_a_bar_for_each_share_and_the_margin(full_result: CloakResult, read_svg) -> None:
    releases = {"before": full_result.before["gender"], "after": full_result.targets["gender"]}
    plots = {plot.kind: plot for plot in describe_leaks("gender", releases).plots}
    svg = read_svg(draw(plots["curve"]))
    assert len(svg.marks("symbol")) == 3 * 2
    assert len(svg.marks("rule")) == 3 * 2 + 1
    assert {"20%", "40%", "80%"} <= set(svg.texts)
