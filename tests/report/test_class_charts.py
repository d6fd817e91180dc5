from __future__ import annotations

import pytest

from recveil.core.results import CloakResult
from recveil.report.chart_style import CLASS_COLORS
from recveil.report.charts import draw
from recveil.report.figures import HeatPlot, HeatSquare, Plot
from recveil.report.leak_figures import describe_leaks

HOSTILE = "<script>alert(1)</script>\"'&"


def list_plots(result: CloakResult, *, is_compared: bool = True) -> dict[str, Plot]:
    after = result.targets["age"]
    releases = {"before": result.before["age"], "after": after} if is_compared else {"": after}
    return {plot.kind: plot for plot in describe_leaks("age", releases).plots}


def list_colors(marks: list, attribute: str = "fill") -> set[str]:
    return {mark.get(attribute) for mark in marks}


@pytest.mark.parametrize("is_compared", [True, False])
def test_each_class_has_its_color_and_each_release_its_panel(
    full_result: CloakResult, read_svg, is_compared: bool
) -> None:
    plots = list_plots(full_result, is_compared=is_compared)
    steps, maps = read_svg(draw(plots["step"])), read_svg(draw(plots["map"]))
    panels = 2 if is_compared else 1
    assert len(steps.marks("line")) == len(steps.marks("area")) == 3 * panels
    assert list_colors(steps.marks("line"), "stroke") == set(CLASS_COLORS[:3])
    assert len(maps.marks("rect")) == len(plots["map"].cells)
    assert list_colors(maps.marks("rect")) <= set(CLASS_COLORS[:3])
    assert len(maps.marks("symbol")) == 3 * panels
    for svg in (steps, maps):
        assert ("before" in svg.texts) == is_compared
    assert {"under 35", "35-44", "45 and over"} <= set(maps.texts)


def change_first_class(result: CloakResult, **parts: object) -> CloakResult:
    """Change the first class of age before the defense."""
    age = result.before["age"]
    first, *others = age.leak_map.classes
    classes = [first.model_copy(update=parts), *others]
    age = age.model_copy(update={"leak_map": age.leak_map.model_copy(update={"classes": classes})})
    return result.model_copy(update={"before": {**result.before, "age": age}})


def test_a_class_without_a_cell_in_one_release_moves_no_other_panel(full_result: CloakResult, read_svg) -> None:
    grid = full_result.before["age"].leak_map.classes[0].map
    empty = grid.model_copy(update={"shares": [None] * len(grid.shares)})
    plots = list_plots(change_first_class(full_result, map=empty))
    assert plots["map"].classes == plots["step"].classes == ["under 35", "35-44", "45 and over"]
    root = read_svg(draw(plots["map"])).root
    panels = [group for group in root.iter("g") if "mark-group role-scope cell" in group.get("class", "")]
    drawn = [{mark.get("fill") for mark in cell.iter("path")} & set(CLASS_COLORS) for group in panels for cell in group]
    assert drawn == [set(), *({color} for color in CLASS_COLORS[1:3]), *({color} for color in CLASS_COLORS[:3])]


def test_labels_are_escaped(full_result: CloakResult, read_svg) -> None:
    plots = list_plots(change_first_class(full_result, label=HOSTILE))
    for kind in ("step", "map"):
        assert "<script" not in draw(plots[kind])
    assert HOSTILE in read_svg(draw(plots["map"])).texts


def test_a_heat_map_has_a_square_for_each_pair_and_numbers_while_they_fit(read_svg) -> None:
    for n_classes in (2, 21):
        labels = [f"class {i}" for i in range(n_classes)]
        squares = [HeatSquare(a, b, 1 / n_classes, "x %") for a in labels for b in labels]
        svg = read_svg(draw(HeatPlot(id="h", title="t", labels=labels, squares=squares)))
        assert len(svg.marks("rect")) == n_classes**2
        assert svg.texts.count("x %") == (4 if n_classes == 2 else 0)
