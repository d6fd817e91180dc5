from __future__ import annotations

import math

from recveil.core.types import Estimate
from recveil.report.figures import IntervalPoint, build_dot_plot, list_distinct, make_point


def test_a_missing_estimate_is_no_point_and_a_missing_end_no_bar() -> None:
    assert make_point("g", "", None) == make_point("g", "", Estimate(math.nan, 0, 1, 9)) == []
    assert make_point("g", "", Estimate(0.5, math.nan, 0.6, 9)) == [IntervalPoint("g", "", 0.5, None, 0.6)]


def test_a_figure_needs_a_point_and_a_legend_two_releases() -> None:
    settings = {"axis": "x", "lines": {"chance": 0.5, "zero": 0.0, "none": None}, "caption": ""}
    assert build_dot_plot("i", "t", [], **settings) == []
    points = [IntervalPoint("g", release, 0.5, None, None) for release in ("before", "after")]
    (alone,) = build_dot_plot("i", "t", points[:1], **settings)
    (both,) = build_dot_plot("i", "t", points, **settings)
    assert (alone.releases, both.releases) == ((), ["before", "after"])
    assert [line.label for line in both.lines] == ["chance 0.500", "zero"]
    assert both.kind == "dot"


def test_distinct_names_keep_their_order() -> None:
    assert list_distinct(["b", "a", "b"]) == ["b", "a"]
