"""Advice after a membership audit: what was seen, which rule is responsible, what to do at which price."""

from __future__ import annotations

import pytest

from recveil.core.membership_parts import (
    MembershipFrontier,
    MembershipFrontierPoint,
    MembershipInput,
    MembershipProtocol,
    ReferenceProtocol,
    ServingRule,
)
from recveil.core.result_parts import Verdict
from recveil.core.results import MembershipResult
from recveil.core.types import Estimate
from recveil.workflows.membership_advice import advise_on_members
from recveil.workflows.membership_frontier import find_private_model


def make_point(label: str, auc: float, cost: float, max_auc: float | None = None) -> MembershipFrontierPoint:
    interval, hits = Estimate(auc, auc - 0.02, auc + 0.02, 100), Estimate(0.2, 0.1, 0.3, 100)
    numbers = {"auc": interval, "max_auc": max_auc, "hit_rate": hits, "cost": cost}
    return MembershipFrontierPoint(kind="none", label=label, model="m", serving="fold-in", **numbers)


POINTS = [make_point("open", 0.95, 0.0), make_point("small", 0.57, 0.1), make_point("private", 0.53, 0.3, 0.639)]


def make_result(verdict: str, *, frontier: MembershipFrontier | None = None, **serving: str) -> MembershipResult:
    rule = ServingRule(**{"nonmembers": "fold-in", "seen": "excluded", "k": 10, **serving})
    return MembershipResult(
        n_users=10,
        n_members=5,
        verdict=Verdict(verdict),
        sentence="",
        best_attack=None,
        attacks={},
        input=MembershipInput(name="x", n_users=10, n_items=9, item_vectors="none", model="als", serving=rule),
        protocol=MembershipProtocol(attacks=[], rules=[], kind="transductive", margin=0.05, seed=0),
        frontier=frontier,
    )


def test_advice_names_the_choices_with_their_price_and_their_bound() -> None:
    frontier = MembershipFrontier(points=POINTS, n_references=4, limit=0.6, measured_choice=1, guaranteed_choice=2)
    advice = " ".join(advise_on_members(make_result("leak", frontier=frontier)))
    assert "With a guarantee: private; the best attack reaches 0.530" in advice
    assert "no attack exceeds 0.639; the hit rate of lists changes by -30%" in advice
    assert "Plan with that bound" in advice
    assert "Cheapest by measurement: small" in advice
    assert "these attacks only" in advice
    assert "price for" not in advice
    dear = frontier.model_copy(update={"points": [*POINTS[:2], make_point("private", 0.53, 0.9, 0.639)]})
    assert "price for 5 members" in " ".join(advise_on_members(make_result("leak", frontier=dear)))
    low = frontier.model_copy(update={"points": [*POINTS[:2], make_point("private", 0.53, 0.3, 0.575)]})
    assert "Plan with" not in " ".join(advise_on_members(make_result("leak", frontier=low)))
    nothing = frontier.model_copy(update={"measured_choice": None, "guaranteed_choice": None})
    assert "No point of the frontier" in advise_on_members(make_result("leak", frontier=nothing))[-1]


@pytest.mark.parametrize(
    ("serving", "cause"),
    [({"seen": "paper"}, "--seen excluded"), ({"nonmembers": "popular"}, "--serving fold-in-all"), ({}, "fold-in")],
)
def test_advice_names_the_serving_rule_that_is_responsible(serving: dict[str, str], cause: str) -> None:
    assert cause in advise_on_members(make_result("explained", **serving))[1]


def test_advice_says_what_the_attacker_saw_and_where_there_is_a_guarantee() -> None:
    leak = make_result("leak")
    assert "lists, no scores" in advise_on_members(leak)[0]
    assert f"--model {find_private_model()}" in advise_on_members(leak)[1]
    assert "0.639" in advise_on_members(leak)[1]
    assert len(advise_on_members(make_result("none"))) == 1
    private = leak.input.model_copy(update={"model": find_private_model()})
    assert len(advise_on_members(leak.model_copy(update={"input": private}))) == 1
    for signal, view in (("self-score", "scores of all items"), ("rank-percentile", "ranks of all items")):
        protocol = leak.protocol.model_copy(
            update={"attacks": ["biased", "rmia"], "references": ReferenceProtocol(n=4, signal=signal)}
        )
        seen = advise_on_members(leak.model_copy(update={"protocol": protocol}))[0]
        assert view in seen
        assert "lists; 'rmia' saw" in seen
