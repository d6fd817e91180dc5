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
from recveil.workflows.frontier import STRENGTHS, frontier


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
