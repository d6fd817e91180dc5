import pytest

from recveil.studies.membership_tables import build_membership_parts, list_attacks, list_rules, pool_attack_metric
from recveil.studies.plans import Plan
from recveil.studies.pooled_seeds import pool_plan


def study(made_up, values, **more):
    grid = {"data": ["demo"], "target": ["als"], "shadow": ["lfm"], "attack": ["biased,dlmia"], "seed": [0, 1]}
    plan = Plan.parse({"title": "t", "kind": "membership", "grid": grid}, name="p")
    return pool_plan(plan, [made_up(plan, values, **more)])


def test_attacks_and_rules_are_told_apart(made_up) -> None:
    (line,) = study(made_up, {"biased": 0.6, "dlmia": 0.7, "rule": 0.2})
    assert list_attacks(line) == ["biased", "dlmia"]
    assert list_rules(line) == ["any-overlap"]
    assert pool_attack_metric(line, "dlmia").value == pytest.approx(0.7)
    assert pool_attack_metric(line, "best rule").value == pytest.approx(0.2)  # far below one half tells as much
    assert pool_attack_metric(line, "lira") is None


def test_an_attack_counts_only_where_it_is_ahead_of_every_rule(made_up) -> None:
    parts = build_membership_parts(study(made_up, {"biased": 0.6, "dlmia": 0.9, "rule": 0.65}, skip=[("none", 1)]))
    (row,) = parts["tables"][0]["rows"]
    assert row["label"] == "lfm -> als"
    assert row["cells"]["ahead"] == "dlmia"
    assert row["cells"]["seeds"] == "1 (0 failed, 1 not run)"
    assert "2 tell members apart better than guessing, 1 of them better than every rule" in parts["advice"][0]
    assert "The strongest of these is dlmia" in parts["advice"][0]


def test_what_a_rule_explains_is_said_so(made_up) -> None:
    parts = build_membership_parts(study(made_up, {"biased": 0.9, "dlmia": 0.95, "rule": 1.0}))
    assert parts["tables"][0]["rows"][0]["cells"]["ahead"] == "none"
    assert "explained by how non-members are served" in parts["advice"][0]


def test_nothing_measured_is_nothing_said(made_up) -> None:
    found = study(made_up, {"biased": 0.6, "dlmia": 0.7, "rule": 0.5}, skip=[("none", 0), ("none", 1)])
    parts = build_membership_parts(found)
    assert parts["heats"] == []
    assert parts["advice"] == ["No attack was measured, so nothing can be said."]
