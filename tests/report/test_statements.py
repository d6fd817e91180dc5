from __future__ import annotations

import math

from recveil.core.results import AuditResult, CloakResult
from recveil.core.types import Estimate
from recveil.report.attribute_page import build_attribute_page
from recveil.report.recommendation import recommend_release
from recveil.report.statements import describe_attack_success, describe_cost, describe_power


def test_reliably_wrong_guesses_are_said_to_tell_as_much(audit_result: AuditResult, make_target) -> None:
    inverted = make_target(["F", "M"], {"logistic": 0.4}, "leak")
    (card,) = build_attribute_page(audit_result.model_copy(update={"targets": {"g": inverted}})).top.cards
    assert "right for 40 of 100 users" in card.statement
    assert "reliably wrong" in card.statement


def test_what_no_attacker_could_guess_has_no_number(audit_result: AuditResult) -> None:
    gender = audit_result.targets["gender"]
    nothing = {"balanced_accuracy": Estimate(math.nan, math.nan, math.nan, 0)}
    gender = gender.model_copy(update={"headline": gender.headline.model_copy(update=nothing)})
    assert "No attacker" in describe_attack_success(gender)


def test_power_is_not_claimed_where_there_is_none(audit_result: AuditResult) -> None:
    gender = audit_result.targets["gender"]
    assert "advantage of 0.07 or more with 95 % power" in describe_power(gender)
    for detectable in (math.nan, 1.2):
        assert "detects no advantage" in describe_power(gender.model_copy(update={"detectable": detectable}))


def test_small_classes_do_not_appear_as_payers(cloak_result: CloakResult) -> None:
    gender = cloak_result.utility.per_class["gender"]
    small = {
        part: {"ndcg@10": Estimate(e["ndcg@10"].value, 0, 1, 7)}
        for part, e in (("before", gender["F"].before), ("after", gender["F"].after))
    }
    per_class = {"gender": {**gender, "F": gender["F"].model_copy(update=small)}}
    utility = cloak_result.utility.model_copy(update={"per_class": per_class})
    assert "for F" not in recommend_release(cloak_result.model_copy(update={"utility": utility})).cost


def test_of_many_classes_the_worst_and_the_best_are_told(cloak_result: CloakResult) -> None:
    ages = cloak_result.utility.per_class["age"]
    many = {f"{label} {i}": part for i in range(2) for label, part in ages.items()}
    utility = cloak_result.utility.model_copy(update={"per_class": {"age": many}})
    assert "from −6.0 % for under 35 0 to −4.8 % for 45 and over 0" in describe_cost(utility)
