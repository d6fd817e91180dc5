from __future__ import annotations

import builtins
import xml.etree.ElementTree as ElementTree

import pytest

from recveil.errors import MissingExtra
from recveil.report.charts import COLORS, draw
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


def test_text_takes_its_colour_from_the_page_and_the_background_is_clear(demo_document):
    for figure in summarize(demo_document)["targets"][0]["charts"]:
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
