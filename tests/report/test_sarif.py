import json
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from recveil.core.errors import DataError
from recveil.report.sarif import sarif, write_sarif


def run_of(document: dict[str, Any]) -> dict[str, Any]:
    log = sarif(document)
    assert log["version"] == "2.1.0"
    assert log["$schema"].endswith("sarif-schema-2.1.0.json")
    (run,) = log["runs"]
    return run


def test_the_structure_the_standard_asks_for(demo_document: dict[str, Any]) -> None:
    demo_document["targets"]["job"]["verdict"] = "leak"  # gender: none, age: inconclusive
    run = run_of(demo_document)
    driver = run["tool"]["driver"]
    assert (driver["name"], driver["version"]) == ("recveil", "0.1.0")
    assert [rule["id"] for rule in driver["rules"]] == ["attribute-leak", "inconclusive"]
    for rule in driver["rules"]:
        assert all(rule[part]["text"] for part in ("shortDescription", "fullDescription", "help"))
    assert [(r["ruleId"], r["level"]) for r in run["results"]] == [
        ("inconclusive", "note"),
        ("attribute-leak", "error"),
    ]
    for result in run["results"]:
        rule = driver["rules"][result["ruleIndex"]]
        assert (rule["id"], rule["defaultConfiguration"]["level"]) == (result["ruleId"], result["level"])
        assert result["message"]["text"] == demo_document["targets"][result["properties"]["target"]]["sentence"]
        (location,) = result["locations"]
        assert unquote(location["physicalLocation"]["artifactLocation"]["uri"]) == demo_document["input"]["name"]
        assert location["logicalLocations"][0]["name"] == result["properties"]["target"]


def test_no_leak_is_no_finding(audit_document: dict[str, Any]) -> None:
    assert len(run_of(audit_document)["results"]) == 1
    audit_document["targets"]["gender"]["verdict"] = "none"
    assert run_of(audit_document)["results"] == []


def test_the_numbers_are_there_and_finite(audit_document: dict[str, Any]) -> None:
    target = audit_document["targets"]["gender"]
    target["detectable"] = float("nan")
    (result,) = run_of(audit_document)["results"]
    assert result["properties"]["advantage.low"] == target["headline"]["advantage"]["low"]
    assert result["properties"]["n"] == target["n"]
    json.dumps(result, allow_nan=False)


def test_findings_are_followed_from_run_to_run_by_table_and_attribute(demo_document: dict[str, Any]) -> None:
    def prints(document: dict[str, Any]) -> list[str]:
        return [r["partialFingerprints"]["primaryLocationLineHash"] for r in run_of(document)["results"]]

    first = prints(demo_document)
    assert len(set(first)) == len(first) == 2
    for target in demo_document["targets"].values():
        target["sentence"] += " Other numbers."
    assert prints(demo_document) == first
    demo_document["input"]["name"] = "other.parquet"
    assert not set(prints(demo_document)) & set(first)


@example(name="http://host/E.parquet", target="a")
@given(name=st.text(), target=st.text(min_size=1))
def test_the_place_is_a_relative_uri_whatever_the_file_is_called(name: str, target: str) -> None:
    verdict = {"verdict": "leak", "sentence": f"An outsider can guess {target}."}
    (result,) = run_of({"schema": 1, "input": {"name": name}, "targets": {target: verdict}})["results"]
    uri = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    parts = urlsplit(uri)
    assert uri
    assert uri.isascii()
    assert not parts.scheme
    assert not parts.netloc
    assert not name.isprintable() or not name or unquote(uri) == name
    json.dumps(result).encode("utf-8")


def test_a_name_makes_neither_a_placeholder_nor_a_link(audit_document: dict[str, Any]) -> None:
    audit_document["targets"]["gender"]["sentence"] = "Guesses {0}[here](https://example.org): 0.4 [0.3, 0.5]."
    (result,) = run_of(audit_document)["results"]
    assert result["message"]["text"] == "Guesses {{0}}[here] (https://example.org): 0.4 [0.3, 0.5]."


def test_the_file_is_strict_json_and_whole_or_not_there(audit_document: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "audit.sarif"
    with pytest.raises(DataError, match="schema 2"):
        write_sarif(audit_document | {"schema": 2}, path)
    assert not path.exists()
    write_sarif(audit_document, path)
    assert json.loads(path.read_text(encoding="utf-8")) == sarif(audit_document)


def test_neither_the_command_line_nor_class_counts_get_out(audit_document: dict[str, Any]) -> None:
    plain = sarif(audit_document)
    audit_document["argv"] = ["recveil", "audit", "--embeddings", "/home/secret/E.parquet"]
    audit_document["targets"]["gender"] |= {"counts": {"F": 3, "M": 1897}, "majority": 0.99, "risk": {"user-7": 0.99}}
    assert sarif(audit_document) == plain
