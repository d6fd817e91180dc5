"""Figures of where an attribute leaks: facts about what is drawn."""

from __future__ import annotations

import pytest

from recveil.core.result_parts import ClassDistance
from recveil.core.results import CloakResult
from recveil.report.figures import Plot
from recveil.report.leak_figures import LeakSection, describe_leaks


def list_releases(result: CloakResult, name: str = "gender") -> dict:
    return {"before": result.before[name], "after": result.targets[name]}


def get_leaks(result: CloakResult, name: str = "gender") -> tuple[LeakSection, dict[str, Plot]]:
    section = describe_leaks(name, list_releases(result, name))
    assert section is not None
    return section, {plot.id: plot for plot in section.plots}


def test_where_it_leaks_has_four_figures_with_the_same_classes(full_result: CloakResult) -> None:
    section, plots = get_leaks(full_result)
    assert list(plots) == ["gender.histogram", "gender.activity", "gender.curve", "gender.map"]
    assert plots["gender.curve"].releases == plots["gender.activity"].releases == ["before", "after"]
    assert plots["gender.histogram"].classes == plots["gender.map"].classes == ["F", "M"]
    groups = [point.group for point in plots["gender.activity"].points]
    assert list(dict.fromkeys(groups)) == ["up to 19", "20 to 40", "over 40"]
    assert section.releases == ["before", "after"]


def test_an_audit_without_these_parts_has_no_such_section(cloak_result: CloakResult, full_result: CloakResult) -> None:
    assert describe_leaks("gender", list_releases(cloak_result)) is None
    for part in ("leak_map", "curve", "activity"):
        targets = {key: target.model_copy(update={part: None}) for key, target in list_releases(full_result).items()}
        assert describe_leaks("gender", targets).plots


def test_a_histogram_is_a_staircase_that_ends_at_the_last_edge(full_result: CloakResult) -> None:
    _, plots = get_leaks(full_result)
    histogram = full_result.before["gender"].leak_map.classes[0].histogram
    drawn = [(p.x, p.y) for p in plots["gender.histogram"].points if (p.release, p.label) == ("before", "F")]
    assert drawn == list(zip(histogram.edges, [*histogram.density, histogram.density[-1]], strict=True))


def test_a_map_shows_the_permitted_cells_and_the_mean(full_result: CloakResult) -> None:
    _, plots = get_leaks(full_result)
    plot, grid = plots["gender.map"], full_result.before["gender"].leak_map.classes[0].map
    cells = [cell for cell in plot.cells if (cell.release, cell.label) == ("before", "F")]
    assert len(cells) == sum(share is not None for share in grid.shares)
    assert [(m.x, m.y) for m in plot.means if (m.release, m.label) == ("before", "F")] == [tuple(grid.mean)]
    area = (cells[0].x_end - cells[0].x) * (cells[0].y_end - cells[0].y)
    shown = sum(share or 0 for share in grid.shares)
    assert sum(cell.density for cell in cells) * area == pytest.approx(shown, rel=1e-2)


def test_captions_say_that_the_halves_differ_and_what_is_not_shown(full_result: CloakResult) -> None:
    _, plots = get_leaks(full_result)
    for name in ("histogram", "map"):
        caption = plots[f"gender.{name}"].caption
        assert "other half (300 users)" in caption
        assert "fewer than ten" in caption


def test_one_point_is_no_curve(full_result: CloakResult) -> None:
    one = full_result.targets["gender"].model_copy(update={"curve": full_result.targets["gender"].curve[:1]})
    assert "gender.curve" not in {plot.id for plot in describe_leaks("gender", {"": one}).plots}


def test_the_farthest_pairs_come_first_and_at_most_ten(full_result: CloakResult) -> None:
    leak_map = full_result.before["gender"].leak_map
    labels = [f"class {i}" for i in range(6)]
    distances = [
        ClassDistance(classes=[a, b], value=(j - i) / 10, chance=0.06)
        for i, a in enumerate(labels)
        for j, b in enumerate(labels[i + 1 :], i + 1)
    ]
    target = full_result.before["gender"].model_copy(
        update={"leak_map": leak_map.model_copy(update={"distances": distances})}
    )
    section = describe_leaks("gender", {"": target})
    assert len(section.pairs) == 10  # of 15
    assert section.pairs[0].pair == "class 0 – class 5"
    first, last = (float(section.pairs[i].cells[0]) for i in (0, -1))
    assert first > last
    assert first > float(section.pairs[0].chance)
