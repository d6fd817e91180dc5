"""The verdict on one printed number, without any study."""

from __future__ import annotations

import pytest

from recveil.core.types import Estimate
from recveil.studies.plans import Published
from recveil.studies.published_verdicts import RankingChange, judge_number

OURS = Estimate(0.60, 0.59, 0.61, 100)


@pytest.mark.parametrize(
    ("number", "ours", "change", "verdict"),
    [
        ({"metric": "auc", "value": 0.63}, OURS, None, "reproduced"),
        ({"metric": "auc", "value": 0.64}, OURS, None, "setting"),
        ({"metric": "auc", "value": 0.64, "artifact": "one class"}, OURS, None, "artifact"),
        ({"metric": "auc", "value": 0.64, "artifact": "one class"}, None, None, "artifact"),
        ({"metric": "auc", "value": 0.64}, None, None, "not run"),
        ({"metric": "auc", "value": 0.6, "unavailable": "no data"}, None, None, "not obtainable"),
        ({"metric": "auc", "value": 0.6, "calibrated": True}, OURS, None, "setting"),
        ({"metric": "auc", "value": 0.6, "calibrated": True}, None, None, "not run"),
        ({"metric": "seconds", "value": 0.6}, OURS, None, "setting"),
        ({"metric": "ndcg@10", "value": 0.654}, OURS, None, "reproduced"),
        ({"metric": "ndcg@10", "value": 0.8}, OURS, RankingChange(-0.10, -0.06), "reproduced"),
        ({"metric": "ndcg@10", "value": 0.8}, OURS, RankingChange(-0.10, -0.04), "setting"),
    ],
)
def test_the_rule_of_the_page(
    number: dict[str, object], ours: Estimate | None, change: RankingChange | None, verdict: str
) -> None:
    assert judge_number(Published.model_validate(number), ours, change) == verdict
