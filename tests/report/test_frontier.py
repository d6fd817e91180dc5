"""The frontier on the page."""

from __future__ import annotations

from recveil.report.charts import draw
from recveil.report.frontier import frontier


def found() -> dict[str, object]:
    points = [{"method": "none", "strength": 0.0, "cost": 0.0, "advantage": 0.5, "displacement": 0.0, "seconds": 0.0}]
    for method in ("gaussian", "<b>"):
        for strength in (0.5, 1.0):
            numbers = {"strength": strength, "cost": 0.1 * strength, "advantage": 0.5 - strength / 2}
            points.append({**points[0], "method": method, **numbers})
    return {"cost": "loss of NDCG@10", "points": points, "knee": 2, "left_out": {"d2d": "too many users"}}


def test_every_method_starts_at_the_undefended_table_and_the_knee_is_marked_once() -> None:
    shown = frontier(found())
    assert shown is not None
    rows = shown["charts"][0]["rows"]
    assert [r["cost"] for r in rows if r["strength"] == 0] == [0.0, 0.0]
    assert [(r["method"], r["strength"]) for r in rows if r["knee"]] == [("gaussian", 1.0)]
    assert [r["knee"] for r in shown["rows"]] == [False, False, True, False, False]
    assert shown["left_out"] == "Left out: d2d (too many users)."


def test_it_is_drawn_with_names_escaped() -> None:
    shown = frontier(found())
    assert shown is not None
    svg = draw(shown["charts"][0])
    assert svg.startswith("<svg")
    assert "&lt;b&gt;" in svg
    assert "<b>" not in svg


def test_nothing_is_shown_of_nothing() -> None:
    assert frontier({}) is None
    assert frontier({"points": [{"method": "none", "cost": None, "advantage": None}]}) is None
