"""One word and one sentence for what a membership audit found; none of them says more than the intervals do."""

from __future__ import annotations

import re

import numpy as np
import pytest

from recveil.audits.membership.audit import Found, MembershipAudit
from recveil.audits.membership.conclusion import compute_roc_curves, compute_roc_points, judge_membership
from recveil.core.types import Estimate

TRUTH = np.arange(400) % 2 == 0


def found(auc: float, half: float = 0.02, ahead: float | None = None) -> Found:
    gap = None if ahead is None else Estimate(ahead, ahead - half, ahead + half, 400)
    area = Estimate(auc, auc - half, auc + half, 400)
    return Found(area, {0.001: None, 0.01: None}, area, 0.0, gap)


def audit(truth: np.ndarray | None = TRUTH, **attacks: Found) -> MembershipAudit:
    return MembershipAudit(attacks, dict.fromkeys(attacks, np.arange(400.0)), np.arange(400), truth)


@pytest.mark.parametrize(
    ("attacks", "kind", "words"),
    [
        ({"r": found(0.52), "a": found(0.7, ahead=0.18)}, "leak", "'a' reaches an AUC of 0.700 .* ahead of every rule"),
        ({"r": found(0.9), "a": found(0.8, ahead=-0.1)}, "explained", "explained by the serving rule: the rule 'r'"),
        ({"r": found(0.54, 0.03), "a": found(0.56, 0.03, ahead=0.02)}, "explained", "'a' comes furthest"),
        ({"r": found(0.9)}, "explained", "the rule 'r' reaches an AUC of 0.900"),
        ({"r": found(0.5), "a": found(0.51, ahead=0.01)}, "none", "No attack and no rule"),
        ({"r": found(0.5), "a": found(0.5, 0.2, ahead=0.0)}, "inconclusive", "too few"),
        ({"r": found(0.5), "a": found(0.3, ahead=-0.2)}, "leak", "reliably wrong, which tells as much"),
        ({"r": found(0.3), "a": found(0.5, ahead=0.2)}, "explained", "0.300 .*, reliably wrong"),
    ],
)
def test_the_verdict(attacks: dict[str, Found], kind: str, words: str) -> None:
    told = judge_membership(audit(**attacks))
    assert told["kind"] == kind
    assert re.search(words, told["sentence"])
    assert told["sentence"].endswith("(400 users, 200 of them members).")


def test_the_margin_divides_a_leak_from_none() -> None:
    attacks = {"r": found(0.5), "a": found(0.54, ahead=0.03)}
    assert judge_membership(audit(**attacks), margin=0.03)["kind"] == "leak"
    assert judge_membership(audit(**attacks), margin=0.1)["kind"] == "none"


def test_without_the_truth_there_is_no_verdict_and_no_curve() -> None:
    nobody = audit(truth=None)
    assert judge_membership(nobody)["kind"] == "unknown"
    assert compute_roc_curves(nobody) == {}


def test_a_curve_of_nothing_is_the_diagonal_and_a_perfect_one_the_top() -> None:
    same = np.arange(1000.0)
    points = np.array(compute_roc_points(same, same))
    np.testing.assert_allclose(points[:, 0], points[:, 1], atol=1e-3)
    assert points[0, 0] == 0.001
    assert points[-1].tolist() == [1.0, 1.0]
    assert np.array(compute_roc_points(same + 1000, same))[:, 1].min() == 1.0
    assert np.array(compute_roc_points(same - 1000, same))[:-1, 1].max() == 0.0


def test_a_curve_is_drawn_for_each_attack_and_rises() -> None:
    drawn = compute_roc_curves(audit(r=found(0.5), a=found(0.6, ahead=0.1)))
    assert list(drawn) == ["r", "a"]
    assert (np.diff(np.array(drawn["a"]), axis=0) >= 0).all()
