import pytest
import typer

from recveil.audits.gates import Checks, parse_gate
from recveil.core.errors import UsageError

DOCUMENT = {
    "targets": {
        "gender": {"verdict": "leak", "headline": {"advantage": {"value": 0.2, "low": 0.1, "high": 0.3}}},
        "age": {"verdict": "inconclusive", "headline": {"advantage": {"value": 0.0, "low": None, "high": 0.3}}},
        "hand": {"verdict": "none", "headline": {"advantage": {"value": 0.0, "low": 0.0, "high": 0.03}}},
    }
}


def exit_code(*texts: str, document: dict[str, object] = DOCUMENT) -> int:
    try:
        Checks.of(texts, None).judge(document)
    except typer.Exit as stop:
        return stop.exit_code
    return 0


@pytest.mark.parametrize(
    ("texts", "code"),
    [
        (["gender.advantage.low > 0.05"], 1),
        (["gender.advantage.low > 0.5"], 0),
        (["gender.advantage.high<=0.3"], 1),
        (["hand.advantage.high >= 0.05"], 0),
        (["age.advantage.value > 0.5"], 4),
        (["age.advantage.low > 0.5"], 4),
        (["age.advantage.value > 0.5", "gender.advantage.value > 0.1"], 1),
        ([], 0),
    ],
)
def test_gates_end_with_the_right_code(texts: list[str], code: int) -> None:
    assert exit_code(*texts) == code


@pytest.mark.parametrize(
    "text", ["", "gender > 1", "gender.advantage.low >> 1", "gender.advantage.low > x", "a.b.low > 1"]
)
def test_a_malformed_gate_shows_the_grammar(text: str) -> None:
    with pytest.raises(UsageError, match="Write TARGET.METRIC.BOUND OPERATOR NUMBER"):
        parse_gate(text)


def test_a_gate_on_what_was_not_audited_is_refused() -> None:
    with pytest.raises(UsageError, match="Did you mean 'gender'"):
        Checks.of(["gendr.advantage.low > 0.1"], None).judge(DOCUMENT)


def test_a_gate_on_a_metric_that_the_target_has_not_names_those_it_has() -> None:
    assert parse_gate("gender.r2.low > 0.1").metric == "r2"
    with pytest.raises(UsageError, match="No metric of 'gender' is called 'r2'. Known: advantage"):
        Checks.of(["gender.r2.low > 0.1"], None).judge(DOCUMENT)


RATE = {"value": 0.2, "low": 0.1, "high": 0.3}
WATCHED = {
    "command": "membership",
    "verdict": {"kind": "leak"},
    "attacks": {
        "dlmia": {"auc": {"value": 0.6, "low": 0.56, "high": 0.64}, "tpr_at_fpr": {"0.001": None, "0.01": RATE}}
    },
}


@pytest.mark.parametrize(
    ("text", "kind", "code"),
    [
        ("dlmia.auc.low > 0.55", "leak", 1),
        ("dlmia.auc.low > 0.57", "leak", 0),
        ("dlmia.auc.low > 0.57", "inconclusive", 4),
        ("dlmia.tpr_at_fpr.0.01.low >= 0.1", "leak", 1),
        ("dlmia.tpr_at_fpr.0.001.low > 0.1", "leak", 4),
    ],
)
def test_gates_on_membership_attacks(text: str, kind: str, code: int) -> None:
    assert exit_code(text, document={**WATCHED, "verdict": {"kind": kind}}) == code


def test_a_gate_on_an_attack_that_will_not_run_is_refused_before_the_work() -> None:
    checks = Checks.of(["dlmai.auc.low > 0.55"], None)
    with pytest.raises(UsageError, match="Did you mean 'dlmia'"):
        checks.check_names(["dlmia", "biased"])
    with pytest.raises(UsageError, match="there is no 'tpr_at_fpr.0.5.low'"):
        parse_gate("dlmia.tpr_at_fpr.0.5.low > 0.1")
