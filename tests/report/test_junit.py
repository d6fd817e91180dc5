from __future__ import annotations

import math
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from recveil.core.result_parts import Verdict
from recveil.core.results import AuditResult
from recveil.core.types import Estimate
from recveil.report.junit import junit, list_outcomes, write_junit


@pytest.fixture
def mixed_result(audit_result: AuditResult, make_target) -> AuditResult:
    """Gender does not leak, age is inconclusive, job leaks."""
    verdicts = {"gender": "none", "age": "inconclusive", "job": "leak"}
    targets = {name: make_target(["a", "b"], {"logistic": 0.6}, verdict) for name, verdict in verdicts.items()}
    return audit_result.model_copy(update={"targets": targets})


def list_cases(result: AuditResult, *gates: str) -> dict[str, ElementTree.Element]:
    return {case.attrib["name"]: case for case in ElementTree.fromstring(junit(result, gates)).iter("testcase")}


def change_gender(result: AuditResult, **parts: object) -> AuditResult:
    gender = result.targets["gender"].model_copy(update=parts)
    return result.model_copy(update={"targets": {"gender": gender}})


def test_nothing_fails_without_a_gate_and_an_inconclusive_audit_is_skipped(mixed_result: AuditResult) -> None:
    cases = list_cases(mixed_result)
    outcome = {name: [part.tag for part in case if part.tag != "properties"] for name, case in cases.items()}
    assert outcome == {"gender": [], "age": ["skipped"], "job": ["system-out"]}
    skipped = cases["age"].find("skipped")
    assert skipped.attrib["message"] == skipped.text == mixed_result.targets["age"].sentence
    assert cases["job"].find("system-out").text == f"Leak. {mixed_result.targets['job'].sentence}"
    assert {case.attrib["classname"] for case in cases.values()} == {"recveil.audit"}


def test_the_counts_are_those_of_the_tests(mixed_result: AuditResult) -> None:
    root = ElementTree.fromstring(junit(mixed_result, ("gender.advantage.low > 0.05", "age.auc.value >= 0.6")))
    (suite,) = root
    for element in (root, suite):
        assert int(element.attrib["tests"]) == len(list(root.iter("testcase"))) == 5
        assert int(element.attrib["failures"]) == len(list(root.iter("failure"))) == 2
        assert int(element.attrib["skipped"]) == len(list(root.iter("skipped"))) == 1
        assert element.attrib["errors"] == "0"


def test_a_failed_gate_is_a_failed_test_even_where_nothing_leaks(audit_result: AuditResult) -> None:
    clean = change_gender(audit_result, verdict=Verdict.NONE)
    assert "<failure" not in junit(clean)
    case = list_cases(clean, "gender.advantage.high >= 0.03")["gender.advantage.high >= 0.03"]
    assert case.attrib["classname"] == "recveil.gate"
    assert case.find("failure") is not None


def test_the_headline_numbers_are_properties_that_read_back(
    audit_result: AuditResult, numeric_result: AuditResult
) -> None:
    shown = {p.attrib["name"]: p.attrib["value"] for p in list_cases(audit_result)["gender"].iter("property")}
    target = audit_result.targets["gender"]
    advantage = target.headline.advantage
    assert [float(shown[f"advantage.{end}"]) for end in ("value", "low", "high")] == [
        advantage.value,
        advantage.low,
        advantage.high,
    ]
    assert (shown["verdict"], shown["attack"], float(shown["chance"])) == ("leak", "logistic", target.chance)
    number = {p.attrib["name"] for p in list_cases(numeric_result)["age"].iter("property")}
    assert "advantage.value" in number
    assert "balanced_accuracy.value" not in number


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(name="\ufffe", sentence="\uffff", gate="\x00\ud800")
@given(name=st.text(min_size=1), sentence=st.text(min_size=1), gate=st.text())
def test_whatever_the_names_hold_the_xml_can_be_read(
    audit_result: AuditResult, name: str, sentence: str, gate: str
) -> None:
    target = audit_result.targets["gender"].model_copy(update={"sentence": sentence})
    text = junit(audit_result.model_copy(update={"targets": {name: target}}), [gate])
    text.encode("utf-8")
    first = next(ElementTree.fromstring(text).iter("testcase"))
    assert not all(c.isprintable() for c in name) or first.attrib["name"] == name


def test_neither_class_sizes_nor_times_nor_the_command_line_get_out(audit_result: AuditResult) -> None:
    other = change_gender(audit_result, counts={"F": 3, "M": 1897}, majority=0.99)
    other = other.model_copy(update={"timings": {"audit": 99.9}, "command_line": ["recveil", "/home/secret/E.parquet"]})
    assert junit(other) == junit(audit_result)


def test_a_missing_number_is_left_out(audit_result: AuditResult) -> None:
    headline = audit_result.targets["gender"].headline
    nothing = headline.model_copy(update={"advantage": Estimate(math.nan, math.nan, math.nan, 0)})
    result = change_gender(audit_result, headline=nothing)
    (outcome,) = list_outcomes(result)
    assert not [name for name in outcome.numbers if name.startswith("advantage")]
    assert "nan" not in junit(result)


def test_the_file_holds_the_same_bytes_also_after_json(mixed_result: AuditResult, tmp_path: Path) -> None:
    write_junit(mixed_result, tmp_path / "audit.xml", ["a gate"])
    again = AuditResult.model_validate_json(mixed_result.to_json())
    assert (tmp_path / "audit.xml").read_bytes() == junit(again, ["a gate"]).encode()
