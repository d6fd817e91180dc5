from __future__ import annotations

from recveil.report.chart_style import CLASS_COLORS
from recveil.report.charts import draw, draw_file
from recveil.report.figures import (
    MethodPoint,
    RocPlot,
    RocPoint,
    ScatterPlot,
    ScatterPoint,
    StrengthPlot,
    StrengthPoint,
    TradeoffPlot,
)


def test_a_scatter_plot_has_a_point_for_each_row_in_the_color_of_its_group(read_svg) -> None:
    points = [ScatterPoint(float(i), float(i % 3), "shadow" if i < 4 else "target") for i in range(10)]
    svg = read_svg(draw(ScatterPlot(id="s", title="Invariant features", points=points)))
    drawn = svg.marks("symbol")
    assert [point.get("fill") for point in drawn] == [CLASS_COLORS[0]] * 4 + [CLASS_COLORS[1]] * 6
    assert len({point.get("d") for point in drawn}) == 2
    assert {"shadow", "target"} <= set(svg.texts)


def test_every_strength_is_a_point_and_the_knee_has_a_ring(read_svg) -> None:
    points = [StrengthPoint("<b>", s, s / 10, 0.5 - s / 2, s == 0.5, 0.0, 0.6) for s in (0.0, 0.5, 1.0)]
    plot = StrengthPlot(id="f", title="t", axis="Loss", points=points)
    svg = read_svg(draw(plot))
    assert len(svg.marks("symbol")) == 3 + 1
    assert len(svg.marks("rule")) == 3  # the intervals
    assert plot.methods == ["<b>"]  # the page writes the legend
    alone = draw_file(plot)
    assert "<b>" not in alone
    assert "&lt;b&gt;" in alone


def test_every_method_is_a_point_with_bars_where_it_has_intervals(read_svg) -> None:
    points = [MethodPoint("a", True, 0.5, 0.0), MethodPoint("b", True, 0.1, 3.0, 0.05, 0.2, 1.0, 5.0)]
    svg = read_svg(draw(TradeoffPlot(id="t", title="t", axis="Loss", points=points)))
    assert len(svg.marks("symbol")) == 2
    assert len(svg.marks("rule")) == 2
    assert len(svg.marks("line")) == 1


def test_a_roc_curve_leaves_out_what_a_logarithm_cannot_show(read_svg) -> None:
    points = [RocPoint("a", fpr, tpr) for fpr, tpr in ((0.0, 0.0), (0.01, 0.0), (0.1, 0.3), (1.0, 1.0))]
    svg = draw(RocPlot(id="r", title="t", points=points))
    assert "NaN" not in svg
    assert "Infinity" not in svg
    assert len(read_svg(svg).marks("line")) == 1 + 1  # chance and the attack
