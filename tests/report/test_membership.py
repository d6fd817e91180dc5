"""The page of a membership audit: what it shows of a document, and what it never does."""

from __future__ import annotations

from typing import Any

import pytest

from recveil.core.errors import DataError
from recveil.report.html import render
from recveil.report.membership import told

Document = dict[str, Any]


def estimate(value: float) -> Document:
    return {"value": value, "low": value - 0.02, "high": value + 0.02, "n": 800}


def reached(document: Document, auc: float) -> Document:
    """The document's attack at another AUC."""
    return {**document["attacks"]["dlmia"], "auc": estimate(auc)}


def test_all_attacks_are_in_the_table_and_the_best_rule_alone_in_the_figure(membership_document: Document) -> None:
    page = told(membership_document)
    assert [row["attack"] for row in page["rows"]] == ["overlap", "popular-list", "dlmia"]
    assert page["rows"][2]["auc"]["value"] == "0.700"
    assert page["rows"][2]["realized"] == "0.0095"
    assert page["rows"][2]["rates"][0]["value"] == "–"
    [chart] = page["charts"]
    assert {row["attack"] for row in chart["rows"]} == {"popular-list (rule)", "dlmia"}
    assert page["warnings"] == ["Left out: fewer than 10 users for too few interactions."]
    assert page["games"] == []


def test_the_page_is_drawn_and_says_the_verdict(membership_document: Document) -> None:
    html = render(membership_document)
    assert html.count("<svg") == 1
    assert "An outsider can tell." in html
    assert "folded in" in html
    assert "<script" not in html


def test_attacks_that_see_scores_are_said_to(membership_document: Document) -> None:
    plain = {line["term"]: line["text"] for line in told(membership_document)["threat"]}
    assert "Stronger" not in plain
    assert "scores" in plain["Does not see"]
    protocol = {**membership_document["protocol"], "references": {"n": 16, "signal": "log-odds"}}
    page = told(dict(membership_document, protocol=protocol))
    threat = {line["term"]: line["text"] for line in page["threat"]}
    assert "train 16 models" in threat["Stronger"]
    assert "scores" not in threat["Does not see"]
    assert {"term": "Their signal", "text": "log-odds"} in page["protocol"]


def test_with_a_defense_three_games_stand_side_by_side(membership_document: Document) -> None:
    before, static = ({"attacks": {"dlmia": reached(membership_document, auc)}} for auc in (0.9, 0.4))
    worth = {"before": {"members": estimate(0.3), "others": estimate(0.2)}, "others_lost": estimate(-0.1)}
    page = told(dict(membership_document, before=before, static=static, utility={**worth, "after": worth["before"]}))
    cells = {row["attack"]: [cell["value"] for cell in row["cells"]] for row in page["games"]}
    assert cells["dlmia"] == ["0.900", "0.400", "0.700"]
    assert cells["overlap"] == ["–", "–", "0.500"]
    assert page["utility"][-1]["value"]["value"] == "−0.100"


@pytest.mark.parametrize(
    ("kind", "word"),
    [("explained", "Explained by the serving rule"), ("none", "No leak found"), ("inconclusive", "Inconclusive")],
)
def test_each_verdict_has_its_word(membership_document: Document, kind: str, word: str) -> None:
    verdict = {"kind": kind, "best": "dlmia", "sentence": "x"}
    assert told({**membership_document, "verdict": verdict})["verdict"]["word"] == word


def test_scores_alone_make_a_page_without_a_table(membership_document: Document) -> None:
    verdict = {"kind": "unknown", "sentence": "Scores."}
    html = render({**membership_document, "attacks": {}, "roc": {}, "members": None, "verdict": verdict})
    assert "Scores only" in html
    assert "<svg" not in html


def test_a_hostile_name_is_text(membership_document: Document) -> None:
    hostile = "<img src=x onerror=alert(1)>"
    document = dict(membership_document, input={"name": hostile, "model": hostile}, warnings=[hostile])
    document["attacks"][hostile] = reached(document, 0.55)
    document["roc"][hostile] = [[0.5, 0.5], [1.0, 1.0]]
    html = render(document)
    assert hostile not in html
    assert "&lt;img src=x" in html


def test_what_is_no_membership_audit_is_refused(membership_document: Document) -> None:
    with pytest.raises(DataError, match="is no membership audit"):
        told({"schema": 1, "command": "membership"})
    with pytest.raises(DataError, match="schema 99"):
        told(dict(membership_document, schema=99))
