"""Defenses compared: frontier, wins, and advice that follows from the intervals."""

from dataclasses import replace

import pytest

from recveil.core.types import Estimate
from recveil.studies.cell_results import StoredTarget
from recveil.studies.contests import Entrant, WinCount, build_frontier, count_wins, select_entrants, write_advice
from recveil.studies.plans import Plan
from recveil.studies.pooled_seeds import PooledCell, pool_plan

LEAKS = {"none": (0.6, 0.5), "good": (0.0, 0.48), "dear": (0.0, 0.1), "leaky": (0.5, 0.48)}


@pytest.fixture
def make_contest(fill_store):
    def make(**more):
        labels = {"sliced": "good", "gaussian": "dear", "noise": "leaky"}
        defenses = ["none", *({"name": name, "label": label} for name, label in labels.items())]
        grid = {"data": ["demo"], "model": ["bprmf"], "defense": defenses, "target": ["gender"], "seed": [0, 1, 2]}
        plan = Plan.parse({"title": "t", "kind": "attribute", "grid": grid}, name="p")
        pooled = pool_plan(plan, [fill_store(plan, LEAKS, **more)])
        return pooled, select_entrants(pooled, "gender", 10)

    return make


def test_the_frontier_has_every_defense_and_marks_the_undominated_ones(make_contest) -> None:
    frontier = build_frontier(make_contest()[1], "demo")
    points = {point.defense: point for point in frontier.points}
    assert list(points) == ["none", "good", "dear", "leaky"]
    assert points["good"].best
    assert not points["leaky"].best
    assert points["dear"].hypervolume == 0  # it costs more than the reference point
    assert points["good"].hypervolume > points["leaky"].hypervolume
    assert frontier.reference[0] == points["none"].advantage.value
    assert points["none"].hypervolume is None


def test_a_win_needs_a_clear_gain_and_no_clear_loss(make_contest) -> None:
    _, entrants = make_contest()
    counts = {count.defense: count for count in count_wins([entrants, entrants], 10)}
    assert counts["good"] == WinCount("good", won=4)
    assert counts["dear"] == WinCount("dear", lost=2, open=2)  # more private than the leaky one, but ranks worse
    assert "none" not in counts


def test_defenses_are_paired_over_the_seeds_that_both_have(make_contest) -> None:
    _, entrants = make_contest(skip=[("good", 0)], fail=[("dear", 1), ("dear", 2)])
    counts = {count.defense: count for count in count_wins([entrants], 10)}
    assert counts["good"] == WinCount("good", won=1)  # good and dear have no seed in common


def test_advice_names_the_cheapest_private_defense_and_what_is_not_known(make_contest) -> None:
    pooled, entrants = make_contest(skip=[("leaky", 2)])
    text = write_advice(entrants, pooled, "gender", "demo")
    assert text.startswith("demo: use 'good'.")
    assert "undefended 0.6" in text
    assert "1 cells that failed or were not run" in text
    assert "Not known: whether a leak below" in text


def test_advice_does_not_recommend_a_defense_that_leaks(make_contest) -> None:
    pooled, (none, good, dear, leaky) = make_contest()
    assert "nothing tried hides it; the best is 'leaky'" in write_advice([none, leaky], pooled, "gender", "demo")
    unsure = replace(good, advantage=Estimate(0.02, 0.0, 0.2, 100))
    assert "cannot rule out an advantage" in write_advice([unsure], pooled, "gender", "demo")
    assert "no defense was measured" in write_advice([none], pooled, "gender", "demo")
    cheap = replace(good, advantage=Estimate(0.03, 0.01, 0.06, 100), change=Estimate(0.0, -1.0, 1.0, 100))
    safe = Entrant("safe", "gender", dear.cells, Estimate(0.01, 0.0, 0.045, 100), Estimate(-5.0, -6.0, -4.0, 100))
    assert write_advice([none, cheap, safe], pooled, "gender", "demo").startswith("demo: use 'safe'.")
    shown = replace(safe, advantage=Estimate(0.01, 0.005, 0.045, 100))  # now both show a leak
    assert "'good'" in write_advice([none, cheap, shown], pooled, "gender", "demo")


@pytest.mark.parametrize(
    ("chance", "ending"),
    [
        (0.5, "under the margin of 0.05."),
        (0.0, "under the margin of 0.05."),  # a number has no chance
        (0.0125, "chance is 0.013: an attacker at that margin is right 5.0 times as often."),
    ],
)
def test_no_defense_is_advised_where_nothing_leaks(make_contest, monkeypatch, chance: float, ending: str) -> None:
    pooled, entrants = make_contest()
    clean = replace(entrants[0], advantage=Estimate(0.01, 0.0, 0.03, 100))
    audit = StoredTarget(folds=[], n=100, chance=chance)
    monkeypatch.setattr(PooledCell, "list_audits", lambda self, target: [audit])
    text = write_advice([clean, *entrants[1:]], pooled, "gender", "demo")
    assert text.startswith("demo: no defense is called for.")
    assert "0.010 [0.000, 0.030]" in text
    assert text.endswith(ending)
