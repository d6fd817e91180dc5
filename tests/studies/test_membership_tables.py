"""Membership studies: attacks beside rules, tables with holes, heat maps, and advice."""

import pytest

from recveil.studies.membership_tables import build_membership_content, estimate_metric, list_attacks, list_rules
from recveil.studies.plans import Plan
from recveil.studies.pooled_seeds import pool_plan


@pytest.fixture
def make_study(fill_store):
    def make(aucs, **more):
        grid = {"data": ["demo"], "target": ["als"], "shadow": ["lfm"], "attack": ["biased,dlmia"], "seed": [0, 1]}
        plan = Plan.parse({"title": "t", "kind": "membership", "grid": grid}, name="p")
        return pool_plan(plan, [fill_store(plan, aucs, **more)])

    return make


def test_attacks_and_rules_are_told_apart(make_study) -> None:
    (cells,) = make_study({"biased": 0.6, "dlmia": 0.7, "rule": 0.2})
    assert list_attacks(cells) == ["biased", "dlmia"]
    assert list_rules(cells) == ["any-overlap"]
    assert estimate_metric(cells, "dlmia").value == pytest.approx(0.7)
    assert estimate_metric(cells, "best rule").value == pytest.approx(0.2)  # far below one half reveals as much
    assert estimate_metric(cells, "lira") is None


def test_an_attack_counts_only_where_it_is_ahead_of_every_rule(make_study) -> None:
    content = build_membership_content(make_study({"biased": 0.6, "dlmia": 0.9, "rule": 0.65}, skip=[("none", 1)]))
    (row,) = content.tables[0].rows
    assert (row.label, row.cells["ahead"]) == ("lfm -> als", "dlmia")
    assert row.cells["seeds"] == "1 (0 failed, 1 not run)"
    assert "2 of 2 attacks" in content.advice[0]
    assert "1 of them better than every rule" in content.advice[0]
    assert "The strongest of these is dlmia" in content.advice[0]
    assert [heat.title.split(":")[0] for heat in content.heats] == ["best rule", "biased", "dlmia"]


def test_what_a_rule_explains_is_no_win_of_an_attack(make_study) -> None:
    content = build_membership_content(make_study({"biased": 0.9, "dlmia": 0.95, "rule": 1.0}))
    assert content.tables[0].rows[0].cells["ahead"] == "none"
    assert "serving rule explains" in content.advice[0]


def test_nothing_measured_gives_no_advice(make_study) -> None:
    pooled = make_study({"biased": 0.6, "dlmia": 0.7, "rule": 0.5}, skip=[("none", 0), ("none", 1)])
    content = build_membership_content(pooled)
    assert content.heats == []
    assert content.advice == ["No attack was measured, so nothing can be said."]
