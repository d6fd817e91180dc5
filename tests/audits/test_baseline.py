"""The last release: what counts as worse, and what cannot be compared."""

from __future__ import annotations

import json
from math import nan
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from documents import PROTOCOL, build_target
from recveil.audits.baseline import Finding, compare_with_baseline, exit_code_of, read_baseline
from recveil.core.errors import DataError
from recveil.core.result_parts import ClassTarget, InputSummary
from recveil.core.results import AuditResult
from recveil.core.types import Estimate

VERDICTS = ("leak", "none", "inconclusive")


def target(low: float, high: float, verdict: str = "leak", *, labels: str = "FM", margin: float = 0.05) -> ClassTarget:
    made = build_target(list(labels), {"logistic": 0.6}, verdict, margin=margin)
    advantage = Estimate((low + high) / 2, low, high, 500)
    return made.model_copy(update={"headline": made.headline.model_copy(update={"advantage": advantage})})


def document(rules: dict[str, object] | None = None, **targets: ClassTarget) -> AuditResult:
    protocol = PROTOCOL.model_copy(update={"attacks": ["logistic"], **(rules or {})})
    return AuditResult(input=InputSummary(name="table", n_users=500), protocol=protocol, targets=targets)


def compare_kinds(now: ClassTarget, then: ClassTarget) -> str:
    (finding,) = compare_with_baseline(document(gender=now), document(gender=then))
    assert finding.target == "gender"
    return finding.kind


@pytest.mark.parametrize(
    ("now", "then", "kind"),
    [
        (target(0.31, 0.4), target(0.2, 0.3), "worse"),
        (target(0.3, 0.4), target(0.2, 0.3), "not proven"),
        (target(0.1, 0.19), target(0.2, 0.3), "better"),
        (target(0.0, 0.03, "none"), target(0.2, 0.3), "better"),
        (target(0.02, 0.04, "none"), target(0.0, 0.01, "none"), "worse"),
        (target(0.04, 0.2), target(0.0, 0.1, "none"), "worse"),
        (target(0.04, 0.2), target(0.0, 0.1, "inconclusive"), "worse"),
        (target(0.04, 0.2, margin=0.01), target(0.0, 0.1, "none"), "not proven"),
        (target(0.0, 0.2, "inconclusive"), target(0.0, 0.04, "none"), "unsettled"),
        (target(0.0, 0.2, "inconclusive"), target(0.0, 0.2, "inconclusive"), "no worse"),
        (target(0.0, 0.2, "inconclusive"), target(0.1, 0.3), "no worse"),
        (target(nan, nan, "inconclusive"), target(0.0, 0.04, "none"), "unsettled"),
        (target(0.2, 0.3), target(nan, 0.3), "unsettled"),
        (target(0.2, 0.3), target(0.2, 0.3, labels="FMX"), "unsettled"),
        (target(0.0, 0.1), target(0.2, 0.3, labels="FMX"), "unsettled"),
    ],
)
def test_what_counts_as_worse(now: ClassTarget, then: ClassTarget, kind: str) -> None:
    assert compare_kinds(now, then) == kind


interval = st.tuples(st.floats(0, 1), st.floats(0, 1)).map(sorted)


@pytest.mark.thorough
@given(a=interval, b=interval, verdict=st.sampled_from(VERDICTS))
def test_better_is_the_mirror_of_worse_and_overlap_is_neither(a: list[float], b: list[float], verdict: str) -> None:
    one, other = target(*a, verdict), target(*b, verdict)
    mirrored = {"worse": {"better"}, "better": {"worse"}, "not proven": {"no worse"}}
    mirrored["no worse"] = {"not proven", "no worse"} if sum(a) == sum(b) else {"not proven"}
    there, back = compare_kinds(one, other), compare_kinds(other, one)
    assert back in mirrored[there]
    assert (there in ("not proven", "no worse")) == (max(a[0], b[0]) <= min(a[1], b[1]))
    same = document(gender=one, age=other)
    assert {finding.kind for finding in compare_with_baseline(same, same)} == {"no worse"}
    assert exit_code_of(compare_with_baseline(same, same)) == 0  # no release is worse than itself


def test_targets_on_one_side_are_named_and_a_dropped_one_does_not_pass() -> None:
    now, then = document(gender=target(0.2, 0.3), job=target(0.1, 0.2)), document(gender=target(0.2, 0.3))
    added, dropped = compare_with_baseline(now, then), compare_with_baseline(then, now)
    assert [(f.kind, f.target) for f in added] == [("no worse", "gender"), ("new", "job")]
    assert exit_code_of(added) == 0
    assert [(f.kind, f.target) for f in dropped] == [("no worse", "gender"), ("missing", "job")]
    assert exit_code_of(dropped) == 4


def test_a_weaker_panel_cannot_show_that_nothing_got_worse() -> None:
    then = document({"panel": "full", "attacks": ["logistic", "mlp"]}, gender=target(0.2, 0.3))
    first, second = compare_with_baseline(document(gender=target(0.0, 0.1)), then)
    assert (first.kind, first.target, second.kind) == ("unsettled", "", "better")
    assert "panel full then, fast now; attacks logistic, mlp then, logistic now" in first.sentence
    assert exit_code_of([first, second]) == 4
    assert exit_code_of(compare_with_baseline(document(gender=target(0.4, 0.5)), then)) == 1
    unruled = document(gender=target(0.2, 0.3)).model_copy(update={"protocol": None})
    assert exit_code_of(compare_with_baseline(unruled, then)) == 0  # unknown rules are no difference


@pytest.mark.parametrize(
    ("kinds", "code"),
    [
        ([], 0),
        (["better", "no worse", "not proven", "new"], 0),
        (["unsettled"], 4),
        (["missing", "better"], 4),
        (["missing", "unsettled", "worse"], 1),
    ],
)
def test_the_exit_code_is_that_of_the_worst_finding(kinds: list[str], code: int) -> None:
    assert exit_code_of([Finding(kind, "gender", "sentence.") for kind in kinds]) == code


def test_the_sentence_holds_both_intervals() -> None:
    (finding,) = compare_with_baseline(document(gender=target(0.4, 0.5)), document(gender=target(0.1, 0.2)))
    for interval in ("0.150 [0.100, 0.200]", "0.450 [0.400, 0.500]"):
        assert interval in finding.sentence


def test_a_kept_document_reads_back(tmp_path: Path) -> None:
    path = tmp_path / "previous.json"
    kept = document(gender=target(0.2, 0.3), age=target(0.1, 0.2, "inconclusive"))
    path.write_text("\ufeff" + kept.to_json(), encoding="utf-8")
    assert read_baseline(path) == kept


GOOD = document(gender=target(0.2, 0.3)).model_dump(mode="json")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "is not a JSON document"),
        (b"\xff\xfe{\x00", "is not a JSON document"),
        (b"[" * 200_000, "is not a JSON document"),
        (b"[1, 2]", "is not a JSON object"),
        (b"{}", "is not a result of `recveil audit`"),
        (json.dumps({"command": "audit", "schema": 1}).encode(), "has schema 1, and this version reads 2"),
        (json.dumps(GOOD | {"schema_version": 0}).encode(), "has schema 0, and this version reads 2"),
        (json.dumps(GOOD | {"command": "cloak"}).encode(), "is not a result of `recveil audit`"),
        (json.dumps(GOOD | {"targets": {}}).encode(), "names no audited attribute"),
        (json.dumps(GOOD | {"targets": [1]}).encode(), "is damaged (targets: "),
        (json.dumps(GOOD | {"targets": {"age": {"headline": 3}}}).encode(), "is damaged (targets.age"),
        (json.dumps(GOOD).replace("0.2,", f"{'9' * 400},").encode(), "an integer has 400 digits"),
        (json.dumps(GOOD).replace("0.2,", "NaN,").encode(), "NaN is not a number"),
        (json.dumps(GOOD).replace("0.2,", "[],").encode(), "is damaged (targets.gender"),
    ],
)
def test_what_cannot_be_compared_is_refused_with_what_to_do(content: bytes, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "previous.json"
    path.write_bytes(content)
    with pytest.raises(DataError) as error:
        read_baseline(path)
    assert reason in str(error.value)
    assert "Run the audit of the last release again" in str(error.value)


def test_a_baseline_that_is_not_there_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "none.json", tmp_path):
        with pytest.raises(DataError, match="The baseline .* cannot be read"):
            read_baseline(path)
