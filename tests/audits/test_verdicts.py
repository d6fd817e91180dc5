"""The verdict by cases; that it is right in worlds with known answers is shown in test_audit.py."""

import math

import numpy as np

from recveil.audits.verdicts import AttackResult, TargetAudit
from recveil.core.types import Estimate


def with_advantage(value: float, low: float, high: float, *, resolution: float = 0.06, degenerate: bool = False) -> str:
    e = Estimate(0.5, 0.4, 0.6, 100)
    result = AttackResult(e, Estimate(value, low, high, 100), e, e, e, {}, inverted=False, degenerate=degenerate)
    return TargetAudit("t", ("a", "b"), (50, 50), {}, result, {"x": 1.0}, 0.5, np.eye(2), 0.05, resolution, 1.0).verdict


def test_the_verdict_by_cases() -> None:
    assert with_advantage(0.2, 0.1, 0.3) == "leak"
    assert with_advantage(0.2, 0.0, 0.4) == "inconclusive"  # chance is not excluded
    assert with_advantage(0.03, 0.01, 0.06) == "inconclusive"  # something, but perhaps under the margin
    assert with_advantage(0.02, 0.01, 0.04) == "none"  # surely something, and surely under the margin
    assert with_advantage(0.0, 0.0, 0.04) == "none"
    assert with_advantage(0.0, 0.0, 0.04, degenerate=True) == "inconclusive"
    assert with_advantage(0.0, 0.0, 0.04, resolution=0.3) == "inconclusive"
    assert with_advantage(math.nan, math.nan, math.nan) == "inconclusive"
