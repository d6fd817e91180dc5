import re

import pytest

from recveil.core.errors import DataError, UsageError
from recveil.report.html import render
from recveil.report.study import studied, write_study
from recveil.studies.plans import Plan
from recveil.studies.tables import findings

LEAKS = {"none": (0.6, 0.5), "<i>bad": (0.02, 0.48), "noise": (0.5, 0.4)}
NAMES = ["none", {"name": "sliced", "label": "<i>bad"}, "noise"]


@pytest.fixture
def document(made_up):
    grid = {"data": ["demo"], "model": ["bprmf"], "defense": NAMES, "target": ["gender"], "seed": [0, 1]}
    plan = Plan.of({"title": "T <b>", "kind": "attribute", "grid": grid}, name="p")
    return findings(made_up(plan, LEAKS, fail=[("<i>bad", 1)], skip=[("noise", 0), ("noise", 1)]), ["recveil", "study"])


@pytest.fixture
def membership(made_up):
    grid = {"data": ["demo"], "target": ["als", "lfm"], "shadow": ["als", "lfm"], "attack": ["biased,dlmia"]}
    plan = Plan.of({"title": "T", "kind": "membership", "grid": grid}, name="p")
    return findings(made_up(plan, {"biased": 0.6, "dlmia": 0.7, "rule": 0.65}), ["recveil", "study"])


def test_the_page_is_one_file_that_loads_nothing_and_escapes_everything(document) -> None:
    page = render(document)
    assert "<script" not in page
    assert not re.search(r'(src|href)="http', page)
    assert "<i>bad" not in page
    assert "&lt;i&gt;bad" in page
    assert "<b>broken" not in page
    assert page.count("<svg") == 1
    assert "Holes" in page
    assert "2 cells were not run" in page


def test_a_row_without_a_number_is_shown_as_a_hole(document) -> None:
    tables = studied(document)["tables"]
    assert [(row["label"], row["hole"]) for row in tables[0]["rows"]] == [
        *(("none", False), ("<i>bad", False), ("noise", True))
    ]


def test_the_frontier_has_intervals_both_ways_and_its_reference_point(document) -> None:
    (figure,) = studied(document)["charts"]
    assert figure["kind"] == "bands"
    for row in figure["rows"]:
        assert row["low"] <= row["advantage"] <= row["high"]
        assert row["cost_low"] <= row["cost"] <= row["cost_high"]
    assert "reference point (advantage 0.6" in figure["caption"]


def test_membership_is_drawn_as_heat_maps(membership) -> None:
    charts = studied(membership)["charts"]
    assert [c["kind"] for c in charts] == ["heat"] * 3
    assert {cell["text"] for cell in charts[2]["cells"]} == {"0.700"}
    assert charts[2]["cells"][0]["share"] == pytest.approx(0.4)
    assert render(membership).count("<svg") == 3


def test_every_format_is_written_whole_and_an_unknown_one_is_said(document, tmp_path) -> None:
    for form in ("html", "md", "latex", "csv"):
        made = write_study(document, tmp_path / form, form)
        assert (tmp_path / form).read_text(encoding="utf-8") == made
    with pytest.raises(UsageError, match="No format is called 'tex'"):
        write_study(document, None, "tex")


def test_a_document_of_another_kind_is_refused() -> None:
    with pytest.raises(DataError, match="is no study"):
        studied({"schema": 99})


def test_smoke_results_say_that_they_are_none(document) -> None:
    assert "these are no results" in studied({**document, "size": "smoke"})["size"]
