import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recveil.audits.baseline import Finding, compare, exit_code, read_baseline
from recveil.core.errors import DataError

VERDICTS = ("leak", "none", "inconclusive")


def target(low: float | None, high: float | None, verdict: str = "leak", **more: Any) -> dict[str, Any]:
    value = None if low is None or high is None else (low + high) / 2
    headline = {"attack": "logistic", "advantage": {"value": value, "low": low, "high": high, "n": 500}}
    return {"verdict": verdict, "margin": 0.05, "labels": ["F", "M"], "headline": headline} | more


def document(rules: dict[str, Any] | None = None, **targets: dict[str, Any]) -> dict[str, Any]:
    protocol = {"panel": "fast", "attacks": ["logistic"], "surface": "user vectors"} | (rules or {})
    return {"schema": 1, "command": "audit", "protocol": protocol, "targets": targets}


def kind(now: dict[str, Any], then: dict[str, Any]) -> str:
    (finding,) = compare(document(gender=now), document(gender=then))
    assert finding.target == "gender"
    return finding.kind


@pytest.mark.parametrize(
    ("now", "then", "expected"),
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
        (target(0.0, 0.2, "inconclusive"), target(0.0, 0.2, "inconclusive"), "not proven"),
        (target(0.0, 0.2, "inconclusive"), target(0.1, 0.3), "not proven"),
        (target(None, None, "inconclusive"), target(0.0, 0.04, "none"), "unsettled"),
        (target(0.2, 0.3), target(None, 0.3), "unsettled"),
        (target(0.2, 0.3), target(0.2, 0.3, labels=["F", "M", "X"]), "unsettled"),
        (target(0.0, 0.1), target(0.2, 0.3, labels=["F", "M", "X"]), "unsettled"),
    ],
)
def test_what_counts_as_worse(now: dict[str, Any], then: dict[str, Any], expected: str) -> None:
    assert kind(now, then) == expected


interval = st.tuples(st.floats(0, 1), st.floats(0, 1)).map(sorted)


@given(a=interval, b=interval, verdict=st.sampled_from(VERDICTS))
def test_better_is_the_mirror_of_worse_and_overlap_is_neither(a: list[float], b: list[float], verdict: str) -> None:
    one, other = target(*a, verdict), target(*b, verdict)
    mirrored = {"worse": "better", "better": "worse", "not proven": "not proven"}
    assert kind(other, one) == mirrored[kind(one, other)]
    assert (kind(one, other) == "not proven") == (max(a[0], b[0]) <= min(a[1], b[1]))


@given(a=interval, verdict=st.sampled_from(VERDICTS))
def test_a_release_is_no_worse_than_itself(a: list[float], verdict: str) -> None:
    same = document(gender=target(*a, verdict), age=target(*a, verdict))
    assert exit_code(compare(same, same)) == 0


def test_targets_on_one_side_are_named_and_a_dropped_one_does_not_pass() -> None:
    now, then = document(gender=target(0.2, 0.3), job=target(0.1, 0.2)), document(gender=target(0.2, 0.3))
    assert [(f.kind, f.target) for f in compare(now, then)] == [("not proven", "gender"), ("new", "job")]
    assert exit_code(compare(now, then)) == 0
    assert [(f.kind, f.target) for f in compare(then, now)] == [("not proven", "gender"), ("missing", "job")]
    assert exit_code(compare(then, now)) == 4


def test_a_weaker_panel_cannot_show_that_nothing_got_worse() -> None:
    then = document({"panel": "full", "attacks": ["logistic", "mlp"]}, gender=target(0.2, 0.3))
    first, second = compare(document(gender=target(0.0, 0.1)), then)
    assert (first.kind, first.target, second.kind) == ("unsettled", "", "better")
    assert "panel full then, fast now; attacks logistic, mlp then, logistic now" in first.sentence
    assert exit_code([first, second]) == 4
    assert exit_code(compare(document(gender=target(0.4, 0.5)), then)) == 1


def test_a_rule_only_one_side_knows_of_is_no_difference() -> None:
    now = document({"leak_ratio": 0.8}, gender=target(0.2, 0.3))
    assert exit_code(compare(now, document(gender=target(0.2, 0.3)))) == 0


@pytest.mark.parametrize(
    ("kinds", "code"),
    [
        ([], 0),
        (["better", "not proven", "new"], 0),
        (["unsettled"], 4),
        (["missing", "better"], 4),
        (["missing", "unsettled", "worse"], 1),
    ],
)
def test_the_exit_code_is_that_of_the_worst_finding(kinds: list[str], code: int) -> None:
    assert exit_code([Finding(kind, "gender", "sentence.") for kind in kinds]) == code


def test_the_sentence_holds_both_intervals() -> None:
    (finding,) = compare(document(gender=target(0.4, 0.5)), document(gender=target(0.1, 0.2)))
    assert finding.sentence == (
        "gender leaks more than before: advantage 0.150 [0.100, 0.200] then, 0.450 [0.400, 0.500] now."
    )


def test_a_kept_document_reads_back(tmp_path: Path) -> None:
    path = tmp_path / "previous.json"
    kept = document(gender=target(0.2, 0.3), age=target(None, None, "inconclusive"))
    path.write_text("\ufeff" + json.dumps(kept), encoding="utf-8")
    assert read_baseline(path) == kept


GOOD = document(gender=target(0.2, 0.3))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is not a JSON document"),
        (b"\xff\xfe{\x00", "is not a JSON document"),
        (b"[" * 200_000, "is not a JSON document"),
        (b"[1, 2]", "is not a document of `recveil audit`"),
        (b"{}", "is not a document of `recveil audit`"),
        (json.dumps(GOOD | {"schema": 0}).encode(), "has schema 0, and this version compares schema 1 only"),
        (json.dumps(GOOD | {"schema": "x\u0007"}).encode(), "has schema x\ufffd, and"),
        (json.dumps(GOOD | {"command": "cloak"}).encode(), "was made by 'cloak'"),
        (json.dumps(GOOD | {"targets": {}}).encode(), "names no audited attribute"),
        (json.dumps(GOOD | {"targets": [1]}).encode(), "names no audited attribute"),
        (json.dumps(GOOD | {"targets": {"age": {"headline": 3}}}).encode(), "has no advantage for 'age'"),
    ],
)
def test_what_cannot_be_compared_is_refused_with_a_way_out(content: bytes, said: str, tmp_path: Path) -> None:
    path = tmp_path / "previous.json"
    path.write_bytes(content)
    with pytest.raises(DataError) as error:
        read_baseline(path)
    assert said in str(error.value)
    assert "Run the audit of the last release again with this version" in str(error.value)


def test_a_baseline_that_is_not_there_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "none.json", tmp_path):
        with pytest.raises(DataError, match="Cannot read the baseline"):
            read_baseline(path)
