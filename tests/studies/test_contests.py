from recveil.core.types import Estimate
from recveil.studies.contests import Entrant, build_frontier, count_wins, select_entrants, write_advice
from recveil.studies.plans import Plan
from recveil.studies.pooled_seeds import pool_plan

LEAKS = {"none": (0.6, 0.5), "good": (0.0, 0.48), "dear": (0.0, 0.1), "leaky": (0.5, 0.48)}


def contest(made_up, **more):
    named = [
        {"name": "sliced", "label": "good"},
        {"name": "gaussian", "label": "dear"},
        {"name": "noise", "label": "leaky"},
    ]
    grid = {"data": ["demo"], "model": ["bprmf"], "defense": ["none", *named], "target": ["gender"], "seed": [0, 1, 2]}
    plan = Plan.parse({"title": "t", "kind": "attribute", "grid": grid}, name="p")
    found = pool_plan(plan, [made_up(plan, LEAKS, **more)])
    return found, select_entrants(found, "gender", 10)


def test_the_frontier_has_every_defense_and_says_what_nothing_beats(made_up) -> None:
    _, found = contest(made_up)
    drawn = build_frontier(found)
    points = {p["defense"]: p for p in drawn["points"]}
    assert list(points) == ["none", "good", "dear", "leaky"]
    assert points["good"]["best"]
    assert not points["leaky"]["best"]
    assert points["dear"]["hypervolume"] == 0  # it costs more than the reference point
    assert points["good"]["hypervolume"] > points["leaky"]["hypervolume"]
    assert drawn["reference"][0] == points["none"]["advantage"]["value"]
    assert points["none"]["hypervolume"] is None


def test_wins_need_a_clear_gain_and_no_clear_loss(made_up) -> None:
    _, found = contest(made_up)
    tally = {row["defense"]: row for row in count_wins([found, found], 10)}
    assert tally["good"] == {"defense": "good", "won": 4, "lost": 0, "open": 0}
    assert tally["dear"]["open"] == 2  # more private than the leaky one, and ranks clearly worse
    assert tally["dear"]["lost"] == 2
    assert "none" not in tally


def test_defenses_are_paired_over_the_seeds_that_both_have(made_up) -> None:
    _, found = contest(made_up, skip=[("good", 0)], fail=[("dear", 1), ("dear", 2)])
    tally = {row["defense"]: row for row in count_wins([found], 10)}
    assert tally["good"] == {"defense": "good", "won": 1, "lost": 0, "open": 0}  # of the dear one nothing is known


def test_advice_names_the_cheapest_of_the_private_ones_and_what_is_not_known(made_up) -> None:
    all_lines, found = contest(made_up, skip=[("leaky", 2)])
    said = write_advice(found, all_lines, "gender", "demo")
    assert said.startswith("demo: use 'good'.")
    assert "undefended 0.6" in said
    assert "1 cells that failed or were not run" in said
    assert "Not known: whether a leak below" in said


def test_advice_does_not_recommend_what_leaks(made_up) -> None:
    all_lines, found = contest(made_up)
    rest = [e for e in found if e.name in ("none", "leaky")]
    assert "nothing tried hides it; the best is 'leaky'" in write_advice(rest, all_lines, "gender", "demo")
    unsure = Entrant("good", "gender", found[1].line, Estimate(0.02, 0.0, 0.2, 100), found[1].change)
    assert "'good' is the best bet, but these users cannot rule out" in write_advice(
        [unsure], all_lines, "gender", "demo"
    )
    assert "no defense was measured" in write_advice(rest[:1], all_lines, "gender", "demo")


def test_advice_recommends_nothing_where_nothing_is_to_be_found(made_up) -> None:
    all_lines, found = contest(made_up)
    clean = Entrant("none", "gender", found[0].line, Estimate(0.01, 0.0, 0.03, 100), found[0].change)
    said = write_advice([clean, *found[1:]], all_lines, "gender", "demo")
    assert said == (
        "demo: no defense is called for. Undefended, the best attacker has an advantage of 0.010 [0.000, 0.030], "
        "under the margin of 0.05."
    )


def test_advice_on_a_number_knows_no_chance(made_up, monkeypatch) -> None:
    all_lines, found = contest(made_up)
    clean = Entrant("none", "gender", found[0].line, Estimate(0.01, 0.0, 0.03, 100), found[0].change)
    monkeypatch.setattr(type(clean.line), "told", lambda self, target: {"chance": 0.0})
    assert write_advice([clean, *found[1:]], all_lines, "gender", "demo").endswith("under the margin of 0.05.")


def test_advice_says_what_a_margin_means_for_many_classes(made_up, monkeypatch) -> None:
    all_lines, found = contest(made_up)
    clean = Entrant("none", "gender", found[0].line, Estimate(0.01, 0.0, 0.03, 100), found[0].change)
    monkeypatch.setattr(type(clean.line), "told", lambda self, target: {"chance": 0.0125})
    said = write_advice([clean, *found[1:]], all_lines, "gender", "demo")
    assert said.endswith("But chance is 0.013: an attacker at that margin is right 5.0 times as often.")


def test_advice_prefers_what_shows_no_leak_to_a_cheaper_one_that_does(made_up) -> None:
    all_lines, found = contest(made_up)
    none, good, dear, _ = found
    close = Entrant("close", "gender", good.line, Estimate(0.03, 0.01, 0.06, 100), Estimate(0.0, -1.0, 1.0, 100))
    safe = Entrant("safe", "gender", dear.line, Estimate(0.01, 0.0, 0.045, 100), Estimate(-5.0, -6.0, -4.0, 100))
    assert write_advice([none, close, safe], all_lines, "gender", "demo").startswith("demo: use 'safe'.")
    leaky = Entrant("safe", "gender", dear.line, Estimate(0.01, 0.005, 0.045, 100), Estimate(-5.0, -6.0, -4.0, 100))
    assert "'close'" in write_advice([none, close, leaky], all_lines, "gender", "demo")
