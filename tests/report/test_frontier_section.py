from __future__ import annotations

import math

import pytest

from recveil.core.result_parts import Frontier, FrontierPoint, FrontierTarget, Verdict
from recveil.core.types import Estimate
from recveil.report.frontier_section import build_frontier_section


def targets(strength: float) -> dict[str, FrontierTarget]:
    largest = Estimate(0.5 - strength / 2, 0.4 - strength / 2, 0.6 - strength / 2, 100)
    small = Estimate(0.0, 0.0, 0.1, 100)
    return {
        name: FrontierTarget(verdict=Verdict.LEAK, advantage=advantage)
        for name, advantage in (("age", small), ("gender", largest))
    }


def test_every_method_of_the_frontier_starts_at_the_undefended_table_and_the_knee_is_marked_once() -> None:
    settings = [("none", 0.0), *((method, s) for method in ("gaussian", "<b>") for s in (0.5, 1.0))]
    points = [
        FrontierPoint(method=m, strength=s, displacement=0.0, cost=0.1 * s, advantage=0.5 - s / 2, targets=targets(s))
        for m, s in settings
    ]
    broken = points[0].model_copy(update={"method": "broken", "cost": math.nan})
    frontier = Frontier(
        cost_measure="loss of NDCG@10", points=[*points, broken], knee=2, excluded={"d2d": "too many users"}
    )
    section = build_frontier_section(frontier)
    assert [point.cost for point in section.plot.points if point.strength == 0] == [0.0, 0.0]
    assert [(p.method, p.strength) for p in section.plot.points if p.is_knee] == [("gaussian", 1.0)]
    assert [row.is_knee for row in section.rows] == [False, False, True, False, False]
    assert [(p.low, p.high) for p in section.plot.points if p.strength == 0.5] == [pytest.approx((0.15, 0.35))] * 2
    assert section.cost_measure == "Loss of NDCG@10"
    assert "d2d (too many users)" in section.excluded
    assert build_frontier_section(None) is None
    assert build_frontier_section(Frontier(cost_measure="x", points=[broken], knee=0)) is None
