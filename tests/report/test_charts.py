from __future__ import annotations

import builtins
import xml.etree.ElementTree as ElementTree

import pytest

from recveil.core.errors import MissingExtra
from recveil.report.charts import CLASS_COLORS, COLORS, draw
from recveil.report.leaks import where_it_leaks
from recveil.report.summary import summarize

HOSTILE = "<script>alert(1)</script>\"'&"


def _row(group, value, low, high, series=""):
    return {"group": group, "series": series, "value": value, "low": low, "high": high}


def _dots(rows, lines=()):
    figure = {"kind": "dots", "id": "x", "title": "A title", "caption": "", "axis": "Balanced accuracy"}
    return figure | {"rows": rows, "lines": list(lines), "series": []}


def _marks(svg, kind):
    root = ElementTree.fromstring(svg)
    return [mark for group in root.iter("g") if f"mark-{kind} role-mark" in group.get("class", "") for mark in group]


def _texts(svg):
    return [element.text for element in ElementTree.fromstring(svg).iter("text")]


def test_one_dot_per_row_one_bar_per_interval_one_rule_per_line():
    rows = [_row("a", 0.6, 0.5, 0.7), _row("b", 0.7, None, None), _row("c", 0.55, 0.5, 0.6)]
    svg = draw(_dots(rows, [{"label": "chance", "at": 0.5}]))
    assert len(_marks(svg, "symbol")) == 3
    assert len(_marks(svg, "rule")) == 2 + 1


def test_dots_stand_in_the_order_of_their_values():
    svg = draw(_dots([_row("a", 0.6, 0.5, 0.7), _row("b", 0.7, 0.6, 0.8), _row("c", 0.55, 0.5, 0.6)]))
    across = [float(mark.get("transform").removeprefix("translate(").split(",")[0]) for mark in _marks(svg, "symbol")]
    assert across[2] < across[0] < across[1]


def test_before_and_after_differ_in_colour_and_in_shape():
    svg = draw(_dots([_row("a", 0.8, 0.7, 0.9, "before"), _row("a", 0.5, 0.4, 0.6, "after")]))
    before, after = _marks(svg, "symbol")
    assert (before.get("fill"), after.get("fill")) == (COLORS["before"], COLORS["after"])
    assert before.get("d") != after.get("d")
    assert before.get("transform") != after.get("transform")


@pytest.mark.parametrize("row", [(0.5, 0.5, 0.5), (0.0, 0.0, 0.0), (1.0, 0.9, 1.0), (-0.003, -0.01, 0.004)])
def test_one_point_alone_can_be_drawn(row):
    svg = draw(_dots([_row("only", *row)]))
    assert len(_marks(svg, "symbol")) == 1
    assert "NaN" not in svg


def test_text_takes_its_colour_from_the_page_and_the_background_is_clear(full_document):
    target = summarize(full_document)["targets"][0]
    for figure in target["charts"] + target["where"]["charts"]:
        root = ElementTree.fromstring(draw(figure))
        assert {element.get("fill") for element in root.iter("text")} == {"currentColor"}
        assert not [rect for rect in root.iter("rect") if rect.get("fill") in ("white", "#fff", "#ffffff")]


def test_the_figure_has_a_name_and_a_size():
    root = ElementTree.fromstring(draw(_dots([_row("a", 0.6, 0.5, 0.7)])))
    assert (root.get("role"), root.get("aria-label"), root.find("title").text) == ("img", "A title", "A title")
    assert float(root.get("width")) > 200
    assert root.get("viewBox") == f"0 0 {root.get('width')} {root.get('height')}"


def test_names_from_the_data_are_escaped():
    figure = _dots([_row(HOSTILE, 0.6, 0.5, 0.7)]) | {"title": HOSTILE}
    heat = {"kind": "heat", "title": HOSTILE, "labels": [HOSTILE, "M"]}
    heat["cells"] = [{"truth": HOSTILE, "guess": guess, "share": 0.5, "text": "50 %"} for guess in heat["labels"]]
    for svg in (draw(figure), draw(heat)):
        assert "<script" not in svg
        assert ElementTree.fromstring(svg).get("aria-label") == HOSTILE
        assert any(shown and shown.startswith("<script>") for shown in _texts(svg))


def test_a_heat_map_has_a_cell_for_each_pair_and_numbers_while_they_fit():
    for classes in (2, 21):
        labels = [f"class {i}" for i in range(classes)]
        cells = [{"truth": a, "guess": b, "share": 1 / classes, "text": "x %"} for a in labels for b in labels]
        svg = draw({"kind": "heat", "title": "t", "labels": labels, "cells": cells})
        assert len(_marks(svg, "rect")) == classes**2
        assert _texts(svg).count("x %") == (4 if classes == 2 else 0)


def _where(document, name="gender", *, compared=True):
    releases = {"before": document["before"][name]} if compared else {}
    releases["after" if compared else ""] = document["targets"][name]
    return {figure["kind"]: figure for figure in where_it_leaks(name, releases)["charts"]}


def _colors(marks, of="fill"):
    return {mark.get(of) for mark in marks}


@pytest.mark.parametrize("compared", [True, False])
def test_each_class_has_its_colour_in_steps_and_maps_and_each_release_its_panel(full_document, compared):
    figures = _where(full_document, "age", compared=compared)
    steps, maps = draw(figures["steps"]), draw(figures["maps"])
    panels = 2 if compared else 1
    assert len(_marks(steps, "line")) == len(_marks(steps, "area")) == 3 * panels
    assert _colors(_marks(steps, "line"), "stroke") == set(CLASS_COLORS[:3])
    cells = [row for row in figures["maps"]["rows"] if row["part"] == "cell"]
    assert len(_marks(maps, "rect")) == len(cells)
    assert _colors(_marks(maps, "rect")) <= set(CLASS_COLORS[:3])
    assert len(_marks(maps, "symbol")) == 3 * panels
    for svg in (steps, maps):
        assert ("before" in _texts(svg)) == compared
    assert {"under 35", "35-44", "45 and over"} <= set(_texts(maps))


def test_a_class_without_a_cell_in_one_release_moves_no_other_panel(full_document):
    first = full_document["before"]["age"]["where"]["classes"][0]
    first["map"]["shares"] = [None] * len(first["map"]["shares"])
    figures = _where(full_document, "age")
    assert figures["maps"]["classes"] == figures["steps"]["classes"] == ["under 35", "35-44", "45 and over"]
    svg = ElementTree.fromstring(draw(figures["maps"]))
    panels = [group for group in svg.iter("g") if "mark-group role-scope cell" in group.get("class", "")]
    drawn = [{mark.get("fill") for mark in cell.iter("path")} & set(CLASS_COLORS) for group in panels for cell in group]
    expected = [set(), *({color} for color in CLASS_COLORS[1:3]), *({color} for color in CLASS_COLORS[:3])]
    assert drawn == expected


def test_a_curve_has_a_dot_and_a_bar_for_each_share_and_the_margin(full_document):
    svg = draw(_where(full_document)["curve"])
    assert len(_marks(svg, "symbol")) == 3 * 2
    assert len(_marks(svg, "rule")) == 3 * 2 + 1
    assert {"20%", "40%", "80%"} <= set(_texts(svg))


def test_labels_in_the_new_figures_are_escaped(full_document):
    for targets in (full_document["before"], full_document["targets"]):
        for place in targets["gender"]["where"]["classes"]:
            place["label"] = HOSTILE if place["label"] == "F" else place["label"]
    figures = _where(full_document)
    for kind in ("steps", "maps"):
        svg = draw(figures[kind] | {"title": HOSTILE})
        assert "<script" not in svg
        assert ElementTree.fromstring(svg).get("aria-label") == HOSTILE
    assert HOSTILE in _texts(draw(figures["maps"]))


def test_the_same_figure_is_the_same_bytes():
    figure = _dots([_row("a", 0.6, 0.5, 0.7)])
    assert draw(figure) == draw(figure)


def test_without_the_extra_the_error_says_what_to_install(monkeypatch):
    real = builtins.__import__

    def missing(name, *args, **kwargs):
        if name == "vl_convert":
            raise ModuleNotFoundError("No module named 'vl_convert'", name="vl_convert")
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(MissingExtra, match=r"vl_convert.*pip install 'recveil\[report\]'"):
        draw(_dots([_row("a", 0.6, 0.5, 0.7)]))


def test_a_cloud_has_a_point_for_each_row_in_the_colour_of_its_group():
    rows = [{"x": float(i), "y": float(i % 3), "group": "shadow" if i < 4 else "target"} for i in range(10)]
    svg = draw({"kind": "cloud", "title": "Invariant features", "rows": rows})
    points = _marks(svg, "symbol")
    assert [point.get("fill") for point in points] == [CLASS_COLORS[0]] * 4 + [CLASS_COLORS[1]] * 6
    assert len({point.get("d") for point in points}) == 2
    assert {"shadow", "target"} <= set(_texts(svg))
