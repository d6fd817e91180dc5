from __future__ import annotations

import json
from html.parser import HTMLParser

import pytest

from recveil.core.errors import UsageError
from recveil.report import render, write_report

HOSTILE = "<script>alert(1)</script>\"'&{{ 7 * 7 }}"
VOID = {"meta", "br", "hr", "img", "link", "input"}


class Page(HTMLParser):
    """Tags, attributes and text of a page; complains about tags that do not match."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.open: list[str] = []
        self.feed(source)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def _hostile(value):
    """The document with a hostile name in the place of every string that a user's file can hold."""
    if isinstance(value, dict):
        return {HOSTILE if key in ("gender", "F", "logistic") else key: _hostile(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_hostile(part) for part in value]
    return value if not isinstance(value, str) or value in ("leak", "none", "inconclusive") else HOSTILE


def _assert_closed(page):
    """Nothing on the page is loaded from anywhere, and nothing runs."""
    for tag, attributes in page.tags:
        assert tag not in {"script", "iframe", "link", "img", "object", "embed", "base", "form"}
        for name, value in attributes.items():
            assert not name.startswith("on")
            assert name not in {"src", "href", "xlink:href", "action", "srcset"} or str(value).startswith("#")


def test_the_whole_demo_is_one_closed_page_with_every_section(demo_document):
    source = render(demo_document)
    page = Page(source)
    _assert_closed(page)
    assert "url(" not in source
    assert "@import" not in source
    assert "http" not in source.replace('http-equiv="Content-Security-Policy"', "")
    assert len(source.encode()) < 500_000
    ids = {attributes["id"] for _, attributes in page.tags if "id" in attributes}
    sections = {"warnings", "threat", "target-1", "target-3", "utility", "cost", "own", "reading", "protocol"}
    assert sections <= ids
    policy = [attributes for tag, attributes in page.tags if attributes.get("http-equiv") == "Content-Security-Policy"]
    assert policy[0]["content"] == "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def test_every_chart_is_a_figure_with_an_svg_and_a_caption(demo_document):
    tags = Page(render(demo_document)).tags
    charts = [attributes["data-chart"] for tag, attributes in tags if tag == "figure"]
    assert len(charts) == len(set(charts)) == 3 * 4 + 2
    assert sum(tag == "svg" for tag, _ in tags) == len(charts)
    assert sum(tag == "figcaption" for tag, _ in tags) == len(charts)


def test_where_it_leaks_is_part_of_each_attribute(full_document):
    source = render(full_document)
    page = Page(source)
    _assert_closed(page)
    assert len(source.encode()) < 600_000
    for name in full_document["targets"]:
        assert f"Where {name} leaks" in page.text
    charts = [attributes["data-chart"] for tag, attributes in page.tags if tag == "figure"]
    assert len(charts) == len(set(charts)) == 3 * (4 + 4) + 2
    alone = full_document | {part: {"gender": full_document[part]["gender"]} for part in ("targets", "before")}
    _assert_closed(Page(render(_hostile(alone))))


def test_the_commands_for_ones_own_files_are_exact(audit_document):
    text = Page(render(audit_document)).text
    audit = "recveil audit --embeddings users.parquet --attributes attributes.parquet --target gender --report out.html"
    assert audit in text
    assert "recveil cloak --embeddings users.parquet --attributes attributes.parquet --target gender" in text
    assert "--out cloaked.parquet" in text
    assert "recveil train --data ml-1m --model bprmf --out run" in text


def test_the_verdict_is_a_word_not_only_a_colour(demo_document):
    text = Page(render(demo_document)).text
    for word in ("Leak", "No leak found", "Inconclusive", "inverted", "degenerate"):
        assert word in text


def test_an_audit_alone_has_no_empty_sections(audit_document):
    page = Page(render(audit_document))
    ids = {attributes["id"] for _, attributes in page.tags if "id" in attributes}
    assert not ids & {"utility", "warnings", "target-2"}
    assert "before and after" not in page.text.split("Who the attacker is")[0]


def test_nulls_everywhere_still_make_a_page(demo_document, full_document):
    nulled, full = (
        json.loads(json.dumps(document), parse_float=lambda _: None) for document in (demo_document, full_document)
    )
    for document in (nulled, full, {"schema": 1, "targets": {"gender": {}}}):
        page = Page(render(document))
        assert "gender" in page.text
        assert "None" not in page.text
        assert "nan" not in page.text.lower().split()


def test_names_from_the_data_cannot_become_markup(demo_document):
    document = _hostile(demo_document)
    page = Page(render(document))
    _assert_closed(page)
    assert HOSTILE in page.text
    assert "49" not in page.text.split("Who the attacker is")[0]


def test_the_same_document_is_the_same_page(audit_document):
    assert render(audit_document) == render(audit_document)


def test_the_largest_audit_stays_small(audit_document):
    """21 classes in three attributes, the most the audit is made for."""
    labels = [f"occupation number {i}" for i in range(21)]
    gender = audit_document["targets"]["gender"]
    wide = gender | {"labels": labels, "counts": dict.fromkeys(labels, 90), "confusion": [[1 / 21] * 21] * 21}
    audit_document["targets"] = {"a": wide, "b": wide, "c": wide}
    audit_document["before"] = audit_document["targets"]
    assert len(render(audit_document).encode()) < 500_000


def test_the_report_is_written_whole_or_not_at_all(tmp_path, audit_document):
    path = tmp_path / "report.html"
    write_report(audit_document, path)
    assert path.read_text(encoding="utf-8") == render(audit_document)
    with pytest.raises(UsageError, match="does not exist"):
        write_report(audit_document, tmp_path / "nowhere" / "report.html")
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]


def test_names_that_are_no_valid_text_can_be_written(tmp_path, audit_document):
    gender = audit_document["targets"]["gender"]
    gender["labels"][0], gender["counts"]["\ud800\x00"] = "\ud800\x00", 40
    write_report(audit_document, tmp_path / "report.html")
    assert "\ufffd" in (tmp_path / "report.html").read_text(encoding="utf-8")
