from __future__ import annotations

import xml.etree.ElementTree as ElementTree

from recveil.core.results import TuneResult
from recveil.report.html import render
from recveil.report.tuning_figure import describe_trials, frontier_svg


def test_each_trial_is_a_point_and_the_choice_stands_out(tune_result: TuneResult) -> None:
    points = describe_trials(tune_result).points
    assert [(point.method, point.is_best) for point in points] == [
        ("no defense", True),
        ("chosen", True),
        ("tried", False),
    ]
    unchosen = tune_result.model_copy(update={"chosen": None})
    assert describe_trials(unchosen).points[1].method == "tried"
    assert "<gender>" in ElementTree.fromstring(frontier_svg(tune_result)).get("aria-label")
    html = render(tune_result)
    assert "x 1" in html
    assert "<gender>" not in html
    assert "within a loss of 3 %" in render(unchosen)
