"""The verdict follows from the intervals, and the sentence holds its numbers."""

from __future__ import annotations

import re

import numpy as np
import pytest

from recveil.audits.membership.audit import MembershipAudit
from recveil.audits.membership.verdict import compute_roc_curves, compute_roc_points, judge_membership
from recveil.core.membership_parts import MembershipAttackResult
from recveil.core.types import Estimate

TRUTH = np.arange(400) % 2 == 0


def result(auc: float, half: float = 0.02, ahead: float | None = None) -> MembershipAttackResult:
    """Make the result of an attack with this AUC; of a rule where `ahead` is None. It is clear from two halves on."""
    area = Estimate(auc, auc - half, auc + half, 400)
    return MembershipAttackResult(
        auc=area,
        tpr_at_fpr={"0.001": None, "0.01": None},
        balanced_accuracy=area,
        threshold=0.0,
        is_rule=ahead is None,
        is_clear=abs(auc - 0.5) > 1.999 * half,
        inverted=area.high < 0.5,
        ahead_of_rules=None if ahead is None else Estimate(ahead, ahead - half, ahead + half, 400),
        explained_by_rule=False,
    )


def audit(truth: np.ndarray | None = TRUTH, **attacks: MembershipAttackResult) -> MembershipAudit:
    return MembershipAudit(attacks, dict.fromkeys(attacks, np.arange(400.0)), np.arange(400), truth)


@pytest.mark.parametrize(
    ("attacks", "verdict", "numbers"),
    [
        ({"r": result(0.52), "a": result(0.7, ahead=0.18)}, "leak", "'a' reaches an AUC of 0.700 .* 'r' .* 0.520"),
        ({"r": result(0.9), "a": result(0.8, ahead=-0.1)}, "explained", "rule 'r' .* 0.900 .*'a' .* 0.800"),
        ({"r": result(0.54, 0.03), "a": result(0.56, 0.03, ahead=0.02)}, "explained", "'a' .* 0.560"),
        ({"r": result(0.5), "a": result(0.56, 0.04, ahead=0.06)}, "inconclusive", "'a' .* 0.560 .* not at the 99.9 %"),
        (
            {"r": result(0.44, 0.04), "a": result(0.5, ahead=0.0)},
            "inconclusive",
            "'r' .* 0.440 .*More users, or more ref",
        ),
        ({"r": result(0.6), "a": result(0.7, 0.15, ahead=0.2)}, "leak", "'a' .* 0.700"),
        ({"r": result(0.9)}, "explained", "the rule 'r' reaches an AUC of 0.900"),
        ({"r": result(0.5), "a": result(0.51, ahead=0.01)}, "none", "by 0.05 of AUC or more: .* 0.510"),
        ({"r": result(0.5), "a": result(0.5, 0.2, ahead=0.0)}, "inconclusive", "Too few users"),
        ({"r": result(0.5), "a": result(0.3, ahead=-0.2)}, "leak", "'a' .* 0.300 .*, reliably wrong"),
        ({"r": result(0.48, 0.05), "a": result(0.6, 0.04, ahead=0.03)}, "leak", "'a' .* 0.600 .* no rule explains"),
        ({"r": result(0.3), "a": result(0.5, ahead=0.2)}, "explained", "'r' .* 0.300 .*, reliably wrong"),
    ],
)
def test_the_verdict(attacks: dict[str, MembershipAttackResult], verdict: str, numbers: str) -> None:
    findings = judge_membership(audit(**attacks))
    assert findings.verdict == verdict
    assert re.search(numbers, findings.sentence)
    assert "400 users, 200 of them members" in findings.sentence
    assert (findings.n_users, findings.n_members) == (400, 200)


def test_the_margin_separates_a_leak_from_none() -> None:
    attacks = {"r": result(0.5), "a": result(0.54, ahead=0.03)}
    assert judge_membership(audit(**attacks), margin=0.03).verdict == "leak"
    assert judge_membership(audit(**attacks), margin=0.1).verdict == "none"


def test_without_the_truth_there_is_no_verdict_and_no_curve() -> None:
    findings = judge_membership(audit(truth=None))
    assert findings.verdict == "unknown"
    assert findings.n_members is findings.best_attack is None
    assert findings.roc == {}


def test_the_curve_of_equal_scores_is_the_diagonal_and_a_perfect_one_the_top() -> None:
    same = np.arange(1000.0)
    points = np.array(compute_roc_points(same, same))
    np.testing.assert_allclose(points[:, 0], points[:, 1], atol=1e-3)
    assert points[0, 0] == 0.001
    assert points[-1].tolist() == [1.0, 1.0]
    assert np.array(compute_roc_points(same + 1000, same))[:, 1].min() == 1.0
    assert np.array(compute_roc_points(same - 1000, same))[:-1, 1].max() == 0.0
    curves = compute_roc_curves(audit(r=result(0.5), a=result(0.6, ahead=0.1)))
    assert list(curves) == ["r", "a"]
    assert (np.diff(np.array(curves["a"]), axis=0) >= 0).all()
