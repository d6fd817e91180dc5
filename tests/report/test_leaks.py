from __future__ import annotations

import json

import pytest

from recveil.report.charts import draw
from recveil.report.leaks import where_it_leaks
from recveil.report.summary import summarize


def _part(document, name="gender"):
    return where_it_leaks(name, {"before": document["before"][name], "after": document["targets"][name]})


def _charts(document, name="gender"):
    return {figure["id"]: figure for figure in _part(document, name)["charts"]}


def test_all_four_figures_and_the_pairs_are_there(full_document):
    charts = _charts(full_document)
    assert list(charts) == ["gender.histogram", "gender.activity", "gender.curve", "gender.map"]
    assert charts["gender.curve"]["series"] == charts["gender.activity"]["series"] == ["before", "after"]
    assert charts["gender.histogram"]["classes"] == charts["gender.map"]["classes"] == ["F", "M"]


def test_a_document_that_says_nothing_of_it_has_no_such_part(demo_document, audit_document):
    assert _part(demo_document) is None
    assert all(target["where"] is None for target in summarize(audit_document)["targets"])


@pytest.mark.parametrize("key", ["where", "curve", "activity"])
@pytest.mark.parametrize("value", [None, {}, [], [None], {"classes": [{}], "distances": [{}], "range": [None, None]}])
def test_a_broken_part_takes_nothing_with_it(full_document, key, value):
    if key != "where" and isinstance(value, dict):
        value = list(value)[:0]
    for targets in (full_document["before"], full_document["targets"]):
        targets["gender"][key] = value
    charts = _part(full_document)["charts"]
    assert charts  # the other parts are still there
    assert all(draw(figure).startswith("<svg") for figure in charts)


def test_captions_say_that_the_halves_differ_and_what_is_not_shown(full_document):
    charts = _charts(full_document)
    for name in ("histogram", "map"):
        caption = charts[f"gender.{name}"]["caption"]
        assert "Directions from one half of the users" in caption
        assert "drawn for the other half (300 users)" in caption
        assert "fewer than ten" in caption


def test_a_histogram_is_a_staircase_that_ends_at_the_last_edge(full_document):
    rows = _charts(full_document)["gender.histogram"]["rows"]
    histogram = full_document["before"]["gender"]["where"]["classes"][0]["histogram"]
    drawn = [(row["x"], row["y"]) for row in rows if (row["release"], row["class"]) == ("before", "F")]
    assert [x for x, _ in drawn] == histogram["edges"]
    assert [y for _, y in drawn] == [*histogram["density"], histogram["density"][-1]]


def test_a_map_shows_the_cells_that_are_given_and_one_mean(full_document):
    rows = _charts(full_document)["gender.map"]["rows"]
    grid = full_document["before"]["gender"]["where"]["classes"][0]["map"]
    mine = [row for row in rows if (row["release"], row["class"]) == ("before", "F")]
    cells = [row for row in mine if row["part"] == "cell"]
    assert len(cells) == sum(share is not None for share in grid["shares"])
    assert [(row["x"], row["y"]) for row in mine if row["part"] == "mean"] == [tuple(grid["mean"])]
    area = (cells[0]["x2"] - cells[0]["x"]) * (cells[0]["y2"] - cells[0]["y"])
    shown = sum(share or 0 for share in grid["shares"])
    assert sum(cell["density"] for cell in cells) * area == pytest.approx(shown, rel=1e-2)


def test_groups_of_activity_say_their_bounds(full_document):
    rows = _charts(full_document)["gender.activity"]["rows"]
    assert list(dict.fromkeys(row["group"] for row in rows)) == ["up to 19", "20 to 40", "over 40"]


def test_one_point_is_no_curve(full_document):
    for targets in (full_document["before"], full_document["targets"]):
        targets["gender"]["curve"] = []
    full_document["targets"]["gender"]["curve"] = [{"ratio": 0.8, "advantage": {"value": 0.2}}]
    assert "gender.curve" not in _charts(full_document)


def test_the_farthest_pairs_come_first_and_at_most_ten(full_document):
    pairs = _part(full_document, "job")["pairs"]
    assert len(pairs) == 10  # of 15
    assert pairs[0]["pair"] == "student – other"
    assert len(pairs[0]["cells"]) == 2
    assert float(pairs[0]["cells"][0]) > float(pairs[-1]["cells"][0])
    assert float(pairs[0]["cells"][0]) > float(pairs[0]["chance"])


def test_it_is_plain_data_and_takes_over_named_fields_only(full_document):
    for target in (*full_document["targets"].values(), *full_document["before"].values()):
        for place in (target["where"], *target["where"]["classes"], *target["curve"], *target["activity"]):
            place["users"] = ["alice-4711"]
    summary = summarize(full_document)
    assert json.loads(json.dumps(summary)) == summary
    assert "alice-4711" not in json.dumps(summary)
