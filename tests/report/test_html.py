"""The page as a file: closed, escaped, whole; and the room: importable without anything heavy."""

from __future__ import annotations

import json
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from recveil.core.results import (
    AuditResult,
    CloakResult,
    Document,
    MembershipResult,
    StudyResult,
    TrainResult,
    TuneResult,
)
from recveil.report import render, write_report

HOSTILE = "<script>alert(1)</script>\"'&{{ 7 * 7 }}\ud800\x00"
VOID = {"meta", "br", "hr", "img", "link", "input"}
NAMES = {
    "gender",
    "F",
    "logistic",
    "sliced",
    "dlmia",
    "embedded world",
    "users.parquet",
    "A table",
    "x|y <i>bad",
    "<gender>",
}


class ParsedPage(HTMLParser):
    """Tags, attributes and text of a page; complains about tags that do not match."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.open: list[str] = []
        self.feed(source)
        assert self.open == []

    @property
    def ids(self) -> set[str | None]:
        return {attributes["id"] for _, attributes in self.tags if "id" in attributes}

    @property
    def charts(self) -> list[str | None]:
        return [attributes["data-chart"] for tag, attributes in self.tags if tag == "figure"]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def replace_names(value: object) -> object:
    """Put a hostile name in the place of names that a user's file can hold."""
    if isinstance(value, dict):
        return {HOSTILE if key in NAMES else key: replace_names(part) for key, part in value.items()}
    if isinstance(value, list):
        return [replace_names(part) for part in value]
    return HOSTILE if value in NAMES or (isinstance(value, str) and value.endswith(".")) else value


def assert_closed(source: str) -> ParsedPage:
    """Check that nothing on the page is loaded from anywhere, and that nothing runs."""
    page = ParsedPage(source)
    for tag, attributes in page.tags:
        assert tag not in {"script", "iframe", "link", "img", "object", "embed", "base", "form"}
        for name, value in attributes.items():
            assert not name.startswith("on")
            assert name not in {"src", "href", "xlink:href", "action", "srcset"} or str(value).startswith("#")
    assert "url(" not in source.replace("url(#", "")
    assert "@import" not in source
    assert "http" not in source.replace('http-equiv="Content-Security-Policy"', "")
    return page


@pytest.fixture(
    params=["audit_result", "numeric_result", "gender_result", "train_result", "membership_result"]
    + ["defended_membership", "study_result", "membership_study", "tune_result"]
)
def any_result(request: pytest.FixtureRequest) -> Document:
    return request.getfixturevalue(request.param)


@pytest.mark.thorough
def test_every_document_is_one_closed_page_and_folds_its_details(any_result: Document) -> None:
    page = assert_closed(render(any_result))
    policy = [attributes for _, attributes in page.tags if attributes.get("http-equiv") == "Content-Security-Policy"]
    assert policy[0]["content"] == "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    assert len(page.charts) == len(set(page.charts))
    assert sum(tag == "svg" for tag, _ in page.tags) == len(page.charts)
    assert sum(tag == "figcaption" for tag, _ in page.tags) == len(page.charts)
    assert sum(tag == "details" for tag, _ in page.tags) >= 2
    assert {"measured", "gaps", "protocol"} <= page.ids
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert "/home" not in page.text
    assert "None" not in page.text


@pytest.mark.thorough
def test_a_hostile_name_anywhere_is_text(any_result: Document) -> None:
    hostile = type(any_result).model_validate(replace_names(json.loads(any_result.to_json())))
    page = assert_closed(render(hostile))
    assert "alert(1)" in page.text
    assert "7 * 7" in page.text
    assert "{{ 49" not in page.text


@pytest.mark.thorough
def test_a_document_read_back_from_json_is_the_same_page(audit_result: AuditResult) -> None:
    assert render(AuditResult.model_validate_json(audit_result.to_json())) == render(audit_result)


@pytest.mark.thorough
def test_the_top_comes_first_and_every_section_is_there(full_result: CloakResult) -> None:
    source = render(full_result)
    page = assert_closed(source)
    order = [source.index(f'id="{name}"') for name in ("verdict", "next", "measured", "gaps", "warnings", "target-1")]
    assert order == sorted(order)
    assert {"target-2", "utility", "cost", "threat", "reading"} <= page.ids
    assert len(page.charts) == 2 * (4 + 4) + 3
    assert len(source.encode()) < 600_000
    for word in ("Leak", "No leak found", "Inconclusive", "inverted", "degenerate"):
        assert word in page.text  # a verdict is a word, not only a color


@pytest.mark.thorough
def test_missing_numbers_still_make_a_page(any_result: Document) -> None:
    def blank(value: object) -> object:
        if isinstance(value, dict) and value.keys() == {"value", "low", "high", "n"}:
            return {**value, "value": None, "low": None, "high": None}
        if isinstance(value, dict):
            return {key: blank(part) for key, part in value.items()}
        return [blank(part) for part in value] if isinstance(value, list) else value

    page = ParsedPage(render(type(any_result).model_validate(blank(json.loads(any_result.to_json())))))
    assert "nan" not in page.text.lower().split()


@pytest.mark.thorough
def test_the_largest_audit_stays_small(cloak_result: CloakResult, make_target) -> None:
    """21 classes, the most the audit is made for."""
    labels = [f"occupation number {i}" for i in range(21)]
    wide = make_target(labels, {"logistic": 0.1, "trees": 0.08, "mlp": 0.09})
    result = cloak_result.model_copy(update={"targets": {"job": wide}, "before": {"job": wide}})
    assert len(render(result).encode()) < 200_000


@pytest.mark.thorough
def test_the_report_is_written_whole_or_not_at_all(audit_result: AuditResult, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    write_report(audit_result, path)
    assert path.read_text(encoding="utf-8") == render(audit_result) == audit_result.to_html()
    with pytest.raises(TypeError, match="no page for"):
        write_report(Document(command="other"), path)
    assert path.read_text(encoding="utf-8") == render(audit_result)
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]


def test_every_kind_of_document_has_a_page() -> None:
    kinds = {AuditResult, CloakResult, TrainResult, MembershipResult, StudyResult, TuneResult}
    leaves = [kind for kind in _list_subclasses(Document) if not kind.__subclasses__()]
    assert {kind for kind in leaves if kind.__module__ == "recveil.core.results"} == kinds


def _list_subclasses(kind: type) -> list[type]:
    return [other for child in kind.__subclasses__() for other in (child, *_list_subclasses(child))]


@pytest.mark.thorough
def test_the_report_loads_no_other_room_and_nothing_heavy() -> None:
    modules = "html, junit, sarif, study_page, tuning_figure"
    code = f"import sys; from recveil.report import {modules}; print(*sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = out.stdout.split()
    rooms = {name.split(".")[1] for name in loaded if name.startswith("recveil.")}
    assert rooms == {"core", "report"}
    assert not {"torch", "sklearn", "altair", "vl_convert", "pyarrow", "scipy"} & set(loaded)
