"""The rule for the one next step."""

from __future__ import annotations

import pytest

from recveil.core.result_parts import DefenseSummary, Frontier, FrontierPoint, FrontierTarget, ListAudits, Verdict
from recveil.core.results import AuditResult, CloakResult, MembershipResult, TrainResult
from recveil.core.self_check_parts import SelfCheck, SelfCheckTarget
from recveil.core.types import Estimate
from recveil.report.recommendation import recommend_for_members, recommend_release

CLEAN = {"logistic": 0.5, "mlp": 0.51}
LEAKY = {"logistic": 0.7, "mlp": 0.8}


@pytest.fixture
def judge(make_target, cloak_result):
    """Make a defended result of gender alone, with this verdict and these fields."""

    def build(verdict: str, **parts: object) -> CloakResult:
        accuracies = LEAKY if verdict == "leak" else CLEAN
        target = make_target(["F", "M"], accuracies, verdict, detectable=0.56, n=480)
        defense = cloak_result.defense.model_copy(update={"targets": ["gender"]})
        fields = {"targets": {"gender": target}, "before": {}, "defense": defense, "utility": None}
        return cloak_result.model_copy(update=fields | parts)

    return build


def test_an_undefended_leak_is_defended_with_the_files_of_the_audit(audit_result: AuditResult) -> None:
    step = recommend_release(audit_result)
    assert step.action == "withhold"
    assert step.command.startswith(
        "recveil cloak --embeddings users.parquet --attributes facts.csv --target gender --out "
    )
    assert step.cost == ""


def test_lists_that_leak_are_not_exposed(audit_result: AuditResult) -> None:
    protocol = audit_result.protocol.model_copy(update={"surface": "lists"})
    step = recommend_release(audit_result.model_copy(update={"protocol": protocol}))
    assert (step.action, step.headline) == ("withhold", "Do not expose these lists. Defend them first.")
    assert "--lists-out" in step.command


def test_a_joint_leak_is_defended_by_its_attributes_and_a_number_by_classes(
    audit_result: AuditResult, numeric_result: AuditResult
) -> None:
    gender = audit_result.targets["gender"]
    clean = gender.model_copy(update={"verdict": Verdict.NONE})
    targets = {"gender": clean, "age": clean, "gender & age": gender}
    command = recommend_release(audit_result.model_copy(update={"targets": targets})).command
    assert "--target gender,age " in command
    assert "--bins age=" in recommend_release(numeric_result).command


def test_a_leak_of_an_unprotected_attribute_asks_to_protect_it_too(judge, make_target) -> None:
    result = judge("none")
    targets = {**result.targets, "age": make_target(["a", "b"], LEAKY, "leak")}
    step = recommend_release(result.model_copy(update={"targets": targets}))
    assert step.action == "withhold"
    assert "Protect age" in step.headline
    assert "--target gender,age " in step.command


def test_a_leak_after_a_weak_defense_asks_for_full_strength(judge) -> None:
    weak = DefenseSummary(name="noise", strength=0.5, targets=["gender"], displacement=0.1)
    step = recommend_release(judge("leak", defense=weak))
    assert step.action == "withhold"
    assert "--method noise --strength 1 " in step.command


def test_a_leak_after_a_full_defense_names_the_cheapest_private_point_of_the_frontier(judge) -> None:
    assert "--frontier" in recommend_release(judge("leak")).command

    def point(method: str, verdict: str, advantage: float, cost: float) -> FrontierPoint:
        target = FrontierTarget(verdict=Verdict(verdict), advantage=Estimate(advantage, 0, 1, 480))
        return FrontierPoint(
            method=method, strength=0.5, displacement=0.1, cost=cost, advantage=advantage, targets={"gender": target}
        )

    points = [point("none", "leak", 0.6, 0.0), point("dear", "none", 0.01, 0.3), point("cheap", "none", 0.02, 0.1)]
    frontier = Frontier(cost_measure="loss of NDCG@10", points=points, knee=2)
    step = recommend_release(judge("leak", frontier=frontier))
    assert "--method cheap --strength 0.5 " in step.command
    assert "loss of NDCG@10 0.100" in step.reasons[1]
    partial = recommend_release(judge("leak", frontier=frontier.model_copy(update={"has_all_methods": False})))
    assert "--frontier" in partial.command  # some methods only: others may leave less
    hopeless = Frontier(cost_measure="displacement", points=points[:1], knee=0)
    step = recommend_release(judge("leak", frontier=hopeless))
    assert step.command == ""
    assert "do not release" in step.reasons[1]


def test_a_defense_that_failed_its_self_check_is_not_released_whatever_the_audit_says(judge) -> None:
    def check(low: float, value: float, high: float, passed: bool) -> SelfCheck:
        before, after = Estimate(0.4, 0.35, 0.45, 480), Estimate(value, low, high, 480)
        target = SelfCheckTarget(before=before, after=after, attack="kernel-ridge", passed=passed)
        return SelfCheck(margin=0.05, targets={"gender": target}, tried={"sliced": value})

    failed, wide, shown = check(0.1, 0.2, 0.3, False), check(0.0, 0.02, 0.2, True), check(0.0, 0.01, 0.04, True)
    step = recommend_release(judge("none", self_check=failed))
    assert step.action == "withhold"
    assert "0.20 after, by kernel-ridge" in step.reasons[0]
    assert recommend_release(judge("none", self_check=wide)).action == "release"
    assert [bool(each.caution) for each in (failed, wide, shown)] == [False, True, False]
    assert "up to 0.20 for gender" in wide.caution


def test_no_leak_is_released_alone_and_what_still_leaks_stays_private(judge, make_target) -> None:
    step = recommend_release(judge("none"))
    assert step.action == "release"
    assert "was not measured" in step.reasons[0]
    leak = {"gender": make_target(["F", "M"], LEAKY, "leak")}
    lists = ListAudits(before=leak, after=leak, after_with_seen=leak)
    step = recommend_release(judge("none", two_releases=leak, lists=lists))
    assert step.action == "release"
    assert ["earlier table" in step.reasons[0], "still leak gender" in step.reasons[1]] == [True, True]
    silent = {"gender": leak["gender"].model_copy(update={"verdict": Verdict.NONE})}
    made = recommend_release(judge("none", lists=ListAudits(before=silent, after=leak, after_with_seen=leak)))
    assert "the defense made them leak gender" in made.reasons[-1]
    heads = ListAudits(before=silent, after=silent, after_with_seen=silent, with_vectors=leak)
    assert "Keep the item vectors private" in recommend_release(judge("none", lists=heads)).reasons[-1]


def test_an_inconclusive_audit_is_measured_again_and_says_its_power(judge) -> None:
    step = recommend_release(judge("inconclusive"))
    assert step.action == "measure"
    assert "480 users" in step.reasons[1]
    assert "advantage of 0.56 or more with 95 % power" in step.reasons[1]


def test_a_leak_outweighs_inconclusive_and_that_outweighs_none(judge, make_target) -> None:
    targets = {v: make_target(["a", "b"], CLEAN, v) for v in ("none", "inconclusive", "leak")}
    kinds = []
    for count in (1, 2, 3):
        some = dict(list(targets.items())[:count])
        kinds.append(recommend_release(judge("none").model_copy(update={"targets": some})).action)
    assert kinds == ["release", "measure", "withhold"]


def test_the_cost_is_per_cent_of_ndcg_and_who_pays_it(cloak_result: CloakResult, judge) -> None:
    cost = recommend_release(cloak_result).cost
    assert "NDCG@10 changes by −5.4 % [−9.8, −0.9]" in cost
    assert "By gender: −6.0 % for F, −5.4 % for M." in cost
    assert "0.310" in recommend_release(judge("none")).cost  # without a ranking, the displacement


def test_a_trained_model_is_audited_first_or_cloaked_as_well(train_result: TrainResult) -> None:
    assert recommend_release(train_result).command.startswith("recveil cloak --run run --target gender,age ")
    step = recommend_release(train_result.model_copy(update={"targets": {}, "before": {}}))
    assert step.action == "audit"
    assert step.command.startswith("recveil audit --run run ")


@pytest.mark.parametrize(
    ("verdict", "action"),
    [
        ("leak", "withhold"),
        ("explained", "measure"),
        ("none", "release"),
        ("inconclusive", "measure"),
        ("unknown", "audit"),
    ],
)
def test_each_membership_verdict_has_its_step(membership_result: MembershipResult, verdict: str, action: str) -> None:
    step = recommend_for_members(membership_result.model_copy(update={"verdict": Verdict(verdict)}))
    assert step.action == action
    assert bool(step.command) == (verdict == "leak")


def test_a_membership_leak_of_a_trained_model_is_followed_by_its_frontier_and_shows_the_advice(
    membership_result: MembershipResult,
) -> None:
    source = membership_result.input.model_copy(update={"model": "als"})
    fields = {"verdict": Verdict.LEAK, "input": source, "command_line": ["recveil", "membership", "--data", "x"]}
    result = membership_result.model_copy(update=fields | {"advice": ["Train with <b>a</b> guarantee."]})
    step = recommend_for_members(result)
    assert step.command == "recveil membership --data x --frontier"
    assert "guarantee" in step.reasons[-1]


def test_a_defended_membership_leak_says_what_the_defense_cost(defended_membership: MembershipResult) -> None:
    step = recommend_for_members(defended_membership)
    assert step.action == "withhold"
    assert "members from 0.350 to 0.300" in step.cost
    assert "non-members from 0.300 to 0.200" in step.cost
