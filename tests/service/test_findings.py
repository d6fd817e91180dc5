"""Findings of result documents."""

from __future__ import annotations

import json

import pytest

from documents import build_target
from recveil.core.result_parts import DefenseSummary, InputSummary
from recveil.core.results import AuditResult, CloakResult
from recveil.service.findings import read_findings


def test_a_cloak_tells_before_after_and_cost() -> None:
    before, after = (
        build_target(["F", "M"], {"logistic": value}, verdict) for value, verdict in ((0.8, "leak"), (0.5, "none"))
    )
    defense = DefenseSummary(name="d", strength=1.0, targets=["gender"], displacement=0.25)
    summary = InputSummary(name="E", n_users=10)
    result = CloakResult(input=summary, defense=defense, before={"gender": before}, targets={"gender": after})
    findings, cost = read_findings(json.loads(result.to_json()))
    assert cost == 0.25
    assert findings["gender"].verdict == "none"
    assert findings["gender"].before == before.headline.advantage
    audit = AuditResult(input=summary, targets={"gender": before})
    assert read_findings(json.loads(audit.to_json()))[0]["gender"].before is None


@pytest.mark.parametrize("content", [None, [], {}, {"command": "cloak"}, {"command": "train"}])
def test_another_document_is_no_result(content: object) -> None:
    with pytest.raises(ValueError, match="validation"):
        read_findings(content)
