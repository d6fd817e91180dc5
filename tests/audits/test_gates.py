"""Gates: conditions on the numbers of a result, and the exit code that CI gets."""

from __future__ import annotations

import pytest

from documents import build_member_attack, build_target
from recveil.audits.gates import check_gate_names, evaluate_gates, parse_gate
from recveil.core.errors import UsageError
from recveil.core.result_parts import ClassTarget, InputSummary, Verdict
from recveil.core.results import AuditResult, MembershipResult
from recveil.core.types import Estimate

NAN = float("nan")


def make_target(verdict: str, value: float, low: float, high: float) -> ClassTarget:
    target = build_target(["a", "b"], {"logistic": 0.6}, verdict)
    headline = target.headline.model_copy(update={"advantage": Estimate(value, low, high, 100)})
    return target.model_copy(update={"headline": headline})


AUDIT = AuditResult(
    input=InputSummary(name="table", n_users=100),
    targets={
        "gender": make_target("leak", 0.2, 0.1, 0.3),
        "age": make_target("inconclusive", 0.0, NAN, 0.3),
        "gender & age": make_target("none", 0.0, 0.0, 0.03),
    },
)


@pytest.mark.parametrize(
    ("texts", "code"),
    [
        (["gender.advantage.low > 0.05"], 1),
        (["gender.advantage.low > 0.5"], 0),
        (["gender.advantage.high<=0.3"], 1),
        (['"gender & age".advantage.high >= 0.05'], 0),
        (["'gender & age'.advantage.high >= 0.03"], 1),
        (["age.advantage.value > 0.5"], 4),  # it does not hold, and the audit could not decide
        (["age.advantage.low > 0.5"], 4),  # there is no such number
        (["age.advantage.value > 0.5", "gender.advantage.value > 0.1"], 1),
        ([], 0),
    ],
)
def test_gates_end_with_the_right_code(texts: list[str], code: int) -> None:
    report = evaluate_gates([parse_gate(text) for text in texts], AUDIT)
    assert report.exit_code == code
    assert {*report.failed, *report.inconclusive} <= set(texts)


@pytest.mark.parametrize(
    "text", ["", "gender > 1", "gender.advantage.low >> 1", "gender.advantage.low > x", "a.b.low > 1", "a.auc.mid > 1"]
)
def test_a_malformed_gate_shows_the_grammar(text: str) -> None:
    with pytest.raises(UsageError, match="Write TARGET.METRIC.BOUND OPERATOR NUMBER"):
        parse_gate(text)


def test_gates_on_names_and_metrics_that_are_not_there_are_refused() -> None:
    with pytest.raises(UsageError, match="Did you mean 'gender'"):
        evaluate_gates([parse_gate("gendr.advantage.low > 0.1")], AUDIT)
    with pytest.raises(UsageError, match="No metric of 'gender' is called 'r2'. .*Known: .*advantage"):
        evaluate_gates([parse_gate("gender.r2.low > 0.1")], AUDIT)
    with pytest.raises(UsageError, match="Did you mean 'dlmia'"):
        check_gate_names([parse_gate("dlmai.auc.low > 0.55")], ["dlmia", "biased"])  # before the work


@pytest.mark.parametrize(
    ("text", "verdict", "code"),
    [
        ("dlmia.auc.low > 0.55", "leak", 1),
        ("dlmia.auc.low > 0.57", "leak", 0),
        ("dlmia.auc.low > 0.57", "inconclusive", 4),
        ("dlmia.tpr_at_fpr.0.01.low >= 0.07", "leak", 1),
        ("dlmia.tpr_at_fpr.0.001.low > 0.1", "leak", 4),  # too few non-members to speak of that rate
    ],
)
def test_gates_on_membership_attacks(text: str, verdict: str, code: int, membership_result: MembershipResult) -> None:
    attack = build_member_attack(0.6).model_copy(update={"auc": Estimate(0.6, 0.56, 0.64, 800)})
    changes = {"attacks": {"dlmia": attack}, "verdict": Verdict(verdict)}
    assert evaluate_gates([parse_gate(text)], membership_result.model_copy(update=changes)).exit_code == code
