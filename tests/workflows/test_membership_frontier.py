"""The frontier of defenses: what is measured, and what is chosen."""

from __future__ import annotations

from pathlib import Path

import pytest

from recveil.audits.membership.observed_scenario import ObservedScenario
from recveil.core.errors import UsageError
from recveil.core.membership_parts import MembershipFrontierPoint
from recveil.core.types import Estimate
from recveil.workflows.membership import MembershipConfig, MembershipRequest, run_membership, run_membership_on_data
from recveil.workflows.membership_frontier import _find_cheapest


def make_point(label: str, auc: float, cost: float, max_auc: float | None = None) -> MembershipFrontierPoint:
    return MembershipFrontierPoint(
        kind="none",
        label=label,
        model="m",
        serving="fold-in",
        auc=Estimate(auc, auc - 0.02, auc + 0.02, 100),
        attack="lira",
        max_auc=max_auc,
        hit_rate=Estimate(0.2, 0.1, 0.3, 100),
        cost=cost,
    )


POINTS = [
    make_point("open", 0.95, 0.0),
    make_point("small", 0.57, 0.1),
    make_point("private", 0.53, 0.3, 0.639),
    make_point("tight", 0.51, 0.6, 0.575),
    MembershipFrontierPoint(kind="epsilon", label="none", model="m", serving="fold-in", reason="too few users"),
]


def test_the_cheapest_point_under_the_limit_is_chosen_with_and_without_a_guarantee() -> None:
    assert _find_cheapest(POINTS, 0.6, guaranteed=False) == 1
    assert _find_cheapest(POINTS, 0.6, guaranteed=True) == 2
    assert _find_cheapest(POINTS, 0.535, guaranteed=False) == 3
    assert _find_cheapest(POINTS, 0.5, guaranteed=False) is None


def test_a_frontier_of_files_is_refused(tmp_path: Path) -> None:
    names = ("target_histories", "target_lists", "shadow_histories", "shadow_lists", "shadow_members")
    scenario = ObservedScenario(**{name: tmp_path / name for name in names})
    with pytest.raises(UsageError, match="leave out `frontier`"):
        run_membership(scenario, config=MembershipConfig(["rules"], frontier=True, device="cpu"))


@pytest.mark.thorough
def test_a_frontier_is_measured_on_the_audited_data(data_folder: Path) -> None:
    request = MembershipRequest(
        data=str(data_folder),
        model="puresvd",
        options={"embedding_size": 16},
        attacks=["lira"],
        references=4,
        k=10,
        frontier=True,
        device="cpu",
    )
    result = run_membership_on_data(request)
    assert result.frontier is not None
    points = result.frontier.points
    assert [point.kind for point in points] == ["none", "serving", *["dimension"] * 3, *["epsilon"] * 4]
    assert points[0].cost == 0
    assert str(points[0].change) == "0.0"  # and not -0.0
    assert points[0].auc is not None
    assert points[0].auc.value > 0.8
    assert points[1].auc == points[0].auc  # PureSVD folds in exactly
    assert points[4].auc is not None
    assert points[4].auc.value < points[0].auc.value
    for point in points[5:]:
        assert point.reason or (point.max_auc is not None and point.auc is not None and point.auc.low <= point.max_auc)
    assert result.advice
    assert result.frontier.n_references == 4
