import json
from copy import deepcopy
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from recveil.core.errors import DataError
from recveil.report.junit import judgements, junit, write_junit


def small(name: str, verdict: str, sentence: str) -> dict[str, Any]:
    advantage = {"value": 0.2, "low": 0.1, "high": 0.3, "n": 99}
    target = {"verdict": verdict, "sentence": sentence, "headline": {"attack": "logistic", "advantage": advantage}}
    return {"schema": 1, "input": {"name": "E.parquet"}, "targets": {name: target}}


def cases(document: dict[str, Any], *gates: str) -> dict[str, ElementTree.Element]:
    return {case.attrib["name"]: case for case in ElementTree.fromstring(junit(document, gates)).iter("testcase")}


def test_a_leak_fails_an_inconclusive_audit_is_skipped_and_none_passes(demo_document: dict[str, Any]) -> None:
    demo_document["targets"]["job"]["verdict"] = "leak"  # gender: none, age: inconclusive
    found = cases(demo_document)
    outcome = {name: [part.tag for part in case if part.tag != "properties"] for name, case in found.items()}
    assert outcome == {"gender": [], "age": ["skipped"], "job": ["failure"]}
    for name, tag in (("age", "skipped"), ("job", "failure")):
        sentence = demo_document["targets"][name]["sentence"]
        said = found[name].find(tag)
        assert said is not None
        assert said.attrib["message"] == said.text == sentence
    assert {case.attrib["classname"] for case in found.values()} == {"recveil.audit"}


def test_the_counts_are_those_of_the_tests(demo_document: dict[str, Any]) -> None:
    gates = ("gender.advantage.low > 0.05", "age.auc.value >= 0.6")
    root = ElementTree.fromstring(junit(demo_document, gates))
    (suite,) = root
    for element in (root, suite):
        assert int(element.attrib["tests"]) == len(list(root.iter("testcase"))) == 5
        assert int(element.attrib["failures"]) == len(list(root.iter("failure"))) == 2
        assert int(element.attrib["skipped"]) == len(list(root.iter("skipped"))) == 2
        assert element.attrib["errors"] == "0"


def test_a_failed_gate_is_a_failed_test_even_where_nothing_leaks(audit_document: dict[str, Any]) -> None:
    audit_document["targets"]["gender"]["verdict"] = "none"
    assert "<failure" not in junit(audit_document)
    case = cases(audit_document, "gender.advantage.high >= 0.03")["gender.advantage.high >= 0.03"]
    assert case.attrib["classname"] == "recveil.gate"
    assert case.find("failure") is not None


def test_the_headline_numbers_are_properties_that_read_back(audit_document: dict[str, Any]) -> None:
    shown = {p.attrib["name"]: p.attrib["value"] for p in cases(audit_document)["gender"].iter("property")}
    target = audit_document["targets"]["gender"]
    for bound in ("value", "low", "high"):
        assert float(shown[f"advantage.{bound}"]) == target["headline"]["advantage"][bound]
    assert shown["verdict"] == "leak"
    assert shown["attack"] == "logistic"
    assert float(shown["chance"]) == target["chance"]


@example(name="\ufffe", sentence="\uffff", gate="\x00\ud800")
@given(name=st.text(min_size=1), sentence=st.text(min_size=1), gate=st.text())
def test_whatever_the_names_hold_the_xml_can_be_read(name: str, sentence: str, gate: str) -> None:
    page = junit(small(name, "leak", sentence), [gate])
    page.encode("utf-8")
    first = next(ElementTree.fromstring(page).iter("testcase"))
    plain = all(c.isprintable() for c in name)
    assert not plain or first.attrib["name"] == name


def test_no_class_count_no_time_and_nothing_added_gets_out(audit_document: dict[str, Any]) -> None:
    page = junit(audit_document)
    other = deepcopy(audit_document) | {"timings": {"audit": 99.9}, "argv": ["recveil", "/home/secret/E.parquet"]}
    other["targets"]["gender"] |= {"counts": {"F": 3, "M": 1897}, "majority": 0.99, "risk": {"user-7": 0.99}}
    assert junit(other) == page


def test_what_was_not_measured_is_left_out(audit_document: dict[str, Any]) -> None:
    audit_document["targets"]["gender"]["headline"]["advantage"] = {"value": None, "low": float("nan"), "high": None}
    (judgement,) = judgements(audit_document)
    assert not [name for name in judgement.numbers if name.startswith("advantage")]
    assert "nan" not in junit(audit_document)


def test_the_file_is_written_whole_or_not_at_all(audit_document: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "audit.xml"
    write_junit(audit_document, path, ["a gate"])
    kept = path.read_bytes()
    assert kept == junit(audit_document, ["a gate"]).encode()
    with pytest.raises(DataError, match="schema 2"):
        write_junit(audit_document | {"schema": 2}, path)
    assert path.read_bytes() == kept
    assert list(tmp_path.iterdir()) == [path]


def test_a_document_read_back_from_json_gives_the_same_bytes(demo_document: dict[str, Any]) -> None:
    assert junit(json.loads(json.dumps(demo_document))) == junit(demo_document)
