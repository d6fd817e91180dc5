"""The frontier: every method that can be run, at every strength, and the knee where it must be."""

from __future__ import annotations

import numpy as np
import pytest

from recveil.attacks.attribute.panels import ATTACKS
from recveil.audits.attribute.audit import audit
from recveil.audits.attribute.folds import Folds
from recveil.audits.catalog import EMBEDDING_DEFENSES
from recveil.audits.verdicts import TargetAudit
from recveil.core.types import FloatArray
from recveil.testing.worlds import planted_leak
from recveil.workflows.frontier import STRENGTHS, frontier, knee


def test_the_knee_is_the_best_bargain() -> None:
    straight = [(1.0, 0.0), (0.5, 0.5), (0.0, 1.0)]
    assert knee([*straight, (0.1, 0.1)]) == 3  # nearly all of the privacy for nearly nothing
    assert knee([(1.0, 0.0), (0.2, 0.1), (0.0, 1.0), (0.9, 0.9)]) == 1  # the last is worse in both
    assert knee([(0.5, 0.0), (0.0, 0.0), (0.2, 0.3)]) == 1  # privacy for nothing
    assert knee([(0.3, 0.3)]) == 0


def test_points_of_every_method_that_can_run(monkeypatch: pytest.MonkeyPatch) -> None:
    quick = {name: EMBEDDING_DEFENSES[name] for name in ("attrcloak", "attrcloak-dd", "gaussian", "leace")}
    monkeypatch.setattr("recveil.workflows.frontier.EMBEDDING_DEFENSES", quick)
    x, secret = planted_leak(300, 4, 2, 3.0, rng=np.random.default_rng(0))

    def attack(table: FloatArray) -> list[TargetAudit]:
        return [audit(table, secret, {"logistic": ATTACKS["logistic"]("cpu")}, rules=Folds(3, 1))]

    found = frontier(x, [secret], attack, serving=None, seed=0, device="cpu")
    methods = [(p["method"], p["strength"]) for p in found["points"]]
    assert methods == [("none", 0.0), *((m, s) for m in ("attrcloak", "gaussian", "leace") for s in STRENGTHS)]
    assert found["left_out"] == {"attrcloak-dd": "it needs item vectors and interactions"}
    assert found["cost"] == "displacement"
    by = {(p["method"], p["strength"]): p for p in found["points"]}
    assert by["none", 0.0]["cost"] == 0
    assert by["gaussian", 0.5]["displacement"] == pytest.approx(by["gaussian", 1.0]["displacement"] / 2, rel=1e-3)
    assert by["gaussian", 0.5]["advantage"] < by["none", 0.0]["advantage"]
    assert by["none", 0.0]["targets"]["secret"]["verdict"] == "leak"
    assert found["points"][found["knee"]]["method"] != "none"
