from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from recveil.core.result_parts import Verdict
from recveil.core.results import AuditResult
from recveil.report.sarif import sarif, write_sarif


def read_run(result: AuditResult) -> dict[str, Any]:
    log = sarif(result)
    assert log["version"] == "2.1.0"
    assert log["$schema"].endswith("sarif-schema-2.1.0.json")
    (run,) = log["runs"]
    return run


def change_gender(result: AuditResult, **parts: object) -> AuditResult:
    gender = result.targets["gender"].model_copy(update=parts)
    return result.model_copy(update={"targets": {"gender": gender}})


def add_inconclusive(result: AuditResult) -> AuditResult:
    age = result.targets["gender"].model_copy(update={"verdict": Verdict.INCONCLUSIVE, "sentence": "Too few users."})
    return result.model_copy(update={"targets": {"age": age, **result.targets}})


def test_the_structure_the_standard_asks_for(audit_result: AuditResult) -> None:
    result = add_inconclusive(audit_result)
    run = read_run(result)
    driver = run["tool"]["driver"]
    assert (driver["name"], driver["version"]) == ("recveil", "0.1.0")
    assert [rule["id"] for rule in driver["rules"]] == ["attribute-leak", "inconclusive"]
    for rule in driver["rules"]:
        assert all(rule[part]["text"] for part in ("shortDescription", "fullDescription", "help"))
    assert [(r["ruleId"], r["level"]) for r in run["results"]] == [
        ("inconclusive", "note"),
        ("attribute-leak", "error"),
    ]
    for finding in run["results"]:
        rule = driver["rules"][finding["ruleIndex"]]
        assert (rule["id"], rule["defaultConfiguration"]["level"]) == (finding["ruleId"], finding["level"])
        assert finding["message"]["text"] == result.targets[finding["properties"]["target"]].sentence
        (location,) = finding["locations"]
        assert unquote(location["physicalLocation"]["artifactLocation"]["uri"]) == result.input.name
        assert location["logicalLocations"][0]["name"] == finding["properties"]["target"]


def test_no_leak_is_no_finding(audit_result: AuditResult) -> None:
    assert len(read_run(audit_result)["results"]) == 1
    assert read_run(change_gender(audit_result, verdict=Verdict.NONE))["results"] == []


def test_findings_are_followed_from_run_to_run_by_table_and_attribute(audit_result: AuditResult) -> None:
    def list_prints(result: AuditResult) -> list[str]:
        return [f["partialFingerprints"]["primaryLocationLineHash"] for f in read_run(result)["results"]]

    result = add_inconclusive(audit_result)
    first = list_prints(result)
    assert len(set(first)) == len(first) == 2
    assert list_prints(change_gender(audit_result, sentence="Other numbers.")) == first[1:]
    renamed = result.model_copy(update={"input": result.input.model_copy(update={"name": "other.parquet"})})
    assert not set(list_prints(renamed)) & set(first)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(name="http://host/E.parquet", target="a")
@given(name=st.text(), target=st.text(min_size=1))
def test_the_place_is_a_relative_uri_whatever_the_file_is_called(
    audit_result: AuditResult, name: str, target: str
) -> None:
    source = audit_result.input.model_copy(update={"name": name})
    result = audit_result.model_copy(update={"input": source, "targets": {target: audit_result.targets["gender"]}})
    (finding,) = read_run(result)["results"]
    uri = finding["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    parts = urlsplit(uri)
    assert uri
    assert uri.isascii()
    assert not parts.scheme
    assert not parts.netloc
    assert not name.isalnum() or unquote(uri) == name
    json.dumps(finding).encode("utf-8")


def test_a_name_makes_neither_a_placeholder_nor_a_link(audit_result: AuditResult) -> None:
    sentence = "Guesses {0}[here](https://example.org): 0.4 [0.3, 0.5]."
    (finding,) = read_run(change_gender(audit_result, sentence=sentence))["results"]
    assert finding["message"]["text"] == "Guesses {{0}}[here] (https://example.org): 0.4 [0.3, 0.5]."


def test_the_file_is_strict_json_without_class_sizes_or_command_line(audit_result: AuditResult, tmp_path: Path) -> None:
    result = change_gender(audit_result, detectable=math.nan)
    write_sarif(result, tmp_path / "audit.sarif")
    text = (tmp_path / "audit.sarif").read_text(encoding="utf-8")
    assert json.loads(text, parse_constant=lambda name: 1 / 0) == sarif(result)
    other = change_gender(result, counts={"F": 3, "M": 1897}, majority=0.99)
    assert sarif(other.model_copy(update={"command_line": ["recveil", "/home/secret/E.parquet"]})) == sarif(result)
