"""The frontier: every method that can be run, at every strength, and the knee where it must be."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from recveil.core.traits import DefenseTraits
from recveil.defenses import DEFENSES
from recveil.testing.worlds import make_planted_leak
from recveil.workflows import frontier
from recveil.workflows.audit_protocol import AuditProtocol
from recveil.workflows.frontier import STRENGTHS, build_frontier

RUN = ("gaussian", "leace", "noise")


@pytest.mark.thorough
def test_points_of_every_method_that_can_run(quick: AuditProtocol, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = [DEFENSES.traits(name) for name in ("attrcloak-dd", *RUN, "raid-pot", "u2u")]
    monkeypatch.setattr(DEFENSES, "all_traits", lambda: chosen, raising=False)
    monkeypatch.setattr("recveil.workflows.defended_release.MAX_USERS_FOR_QUADRATIC", 200)
    quadratic = [traits.name for traits in chosen if traits.quadratic]
    x, secret = make_planted_leak(300, 4, 2, 3.0, rng=np.random.default_rng(0))
    result = build_frontier(x, [secret], replace(quick, panel="logistic"), None)
    assert [(p.method, p.strength) for p in result.points] == [
        ("none", 0.0),
        *((traits.name, s) for traits in chosen if traits.name not in result.excluded for s in STRENGTHS),
    ]
    assert set(RUN) <= {point.method for point in result.points}
    assert set(result.excluded) == {"attrcloak-dd", "raid-pot", *quadratic}
    assert "interactions" in result.excluded["attrcloak-dd"]
    assert result.cost_measure == "displacement"
    points = {(p.method, p.strength): p for p in result.points}
    assert points["none", 0.0].cost == 0
    half, full = points["gaussian", 0.5], points["gaussian", 1.0]
    assert half.displacement == pytest.approx(full.displacement / 2, rel=1e-3)
    assert full.advantage < half.advantage < points["none", 0.0].advantage
    assert points["none", 0.0].targets["secret"].verdict == "leak"
    assert result.points[result.knee].method != "none"


def test_reasons_to_exclude_a_method_follow_from_its_traits() -> None:
    table = frontier._Table(np.zeros((3, 1)), [], AuditProtocol(), None, None)
    assert not frontier._exclusion_reason(DefenseTraits("a", builder="A", quadratic=True), table)
    assert frontier._exclusion_reason(DefenseTraits("a", builder="A", for_comparison=True), table)
    assert frontier._exclusion_reason(DefenseTraits("a", builder="A", needs_loss=True), table)
