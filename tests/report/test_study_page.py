from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from recveil.core.errors import UsageError
from recveil.core.results import StudyResult
from recveil.report.html import render
from recveil.report.study_page import FORMS, build_study_page, form_of, write_figures, write_study


def test_the_page_escapes_everything_and_shows_the_holes(study_result: StudyResult) -> None:
    html = render(study_result)
    assert "<script" not in html
    assert "<i>bad" not in html
    assert "&lt;i&gt;bad" in html
    assert "/home/alice" not in html
    assert html.count("<svg") == 1
    page = build_study_page(study_result)
    assert page.warnings[0].startswith("1 cells were not run")
    assert [(row.label, row.is_hole) for row in page.tables[0].rows] == [("x|y <i>bad", False), ("hole", True)]
    assert [table.title for table in page.contest] == ["Wins"]


def test_smoke_results_say_that_they_are_none(study_result: StudyResult) -> None:
    page = build_study_page(study_result.model_copy(update={"size": "smoke"}))
    assert any("not results" in line for line in page.measured)


def test_the_frontier_has_intervals_both_ways_and_its_reference_point(study_result: StudyResult) -> None:
    (plot,) = build_study_page(study_result).plots
    assert [(point.method, point.is_best) for point in plot.points] == [
        ("none", True),
        ("<i>bad", True),
        ("noise", False),
    ]
    for point in plot.points:
        assert point.low <= point.advantage <= point.high
        assert point.cost_low <= point.cost <= point.cost_high
    assert plot.points[1].cost == 3.0
    assert "advantage 0.600, a loss of 20 %" in plot.caption


def test_membership_is_drawn_as_heat_maps(membership_study: StudyResult) -> None:
    (plot,) = build_study_page(membership_study).plots
    assert {square.text for square in plot.squares} == {"0.700"}
    assert plot.squares[0].share == pytest.approx(0.4)
    assert render(membership_study).count("<svg") == 1


def test_every_form_is_written_and_found_by_its_ending(study_result: StudyResult, tmp_path: Path) -> None:
    for form, endings in FORMS.items():
        path = tmp_path / f"study{endings[0]}"
        assert form_of(path) == form
        text = write_study(study_result, path, form)
        assert path.read_text(encoding="utf-8") == text
    assert form_of(None) == form_of("report") == "html"
    assert form_of("a.MD") == "md"
    with pytest.raises(UsageError, match=r"\.pdf"):
        form_of("a.pdf")
    with pytest.raises(UsageError, match="tex"):
        write_study(study_result, None, "tex")


def test_figures_are_svg_files_that_stand_alone(study_result: StudyResult, tmp_path: Path) -> None:
    (figure,) = write_figures(study_result, tmp_path)
    root = ElementTree.parse(figure.path).getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert Path(figure.path).name == "p-demo-gender.svg"
    assert root.get("color")
