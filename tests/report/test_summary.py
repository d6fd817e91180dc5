from __future__ import annotations

import copy
import json

import pytest

from recveil.core.errors import DataError
from recveil.report.formatting import MISSING
from recveil.report.html import render
from recveil.report.summary import summarize


def test_the_document_is_not_changed_and_the_summary_is_plain_data(demo_document):
    given = copy.deepcopy(demo_document)
    summary = summarize(demo_document)
    assert demo_document == given
    assert json.loads(json.dumps(summary)) == summary


def test_one_verdict_per_attribute_with_word_icon_and_sentence(demo_document):
    verdicts = {item["target"]: item for item in summarize(demo_document)["verdicts"]}
    assert list(verdicts) == ["gender", "age", "job"]
    gender = verdicts["gender"]
    assert [line["release"] for line in gender["lines"]] == ["before", "after"]
    assert [line["verdict"]["word"] for line in gender["lines"]] == ["Leak", "No leak found"]
    assert gender["kind"] == "none"
    assert gender["lines"][1]["verdict"]["sentence"] == demo_document["targets"]["gender"]["sentence"]
    icons = {line["verdict"]["icon"] for item in verdicts.values() for line in item["lines"]}
    assert len(icons) == 3


def test_an_attribute_that_was_not_defended_says_so(demo_document):
    assert [item["unprotected"] for item in summarize(demo_document)["verdicts"]] == [False, False, True]


@pytest.mark.parametrize("verdict", [None, "maybe", "leak\n"])
def test_a_verdict_nobody_knows_is_never_shown_as_safe(audit_document, verdict):
    audit_document["targets"]["gender"]["verdict"] = verdict
    assert summarize(audit_document)["verdicts"][0]["kind"] == "inconclusive"


def test_a_missing_sentence_is_made_from_the_verdict(audit_document):
    audit_document["targets"]["gender"]["sentence"] = None
    [line] = summarize(audit_document)["verdicts"][0]["lines"]
    assert line["verdict"]["sentence"] == "gender can be guessed from what is released."


def test_the_attack_table_has_interval_chance_majority_and_flags(demo_document):
    gender = summarize(demo_document)["targets"][0]
    rows = {attack["attack"]: {row["release"]: row for row in attack["rows"]} for attack in gender["attacks"]}
    assert rows["logistic"]["before"]["balanced_accuracy"]["value"] == "0.812"
    assert rows["logistic"]["before"]["balanced_accuracy"]["interval"] == "[0.782, 0.842]"
    assert rows["logistic"]["before"]["flags"] == ["headline"]
    assert rows["logistic"]["after"]["flags"] == ["inverted"]
    assert rows["trees"]["after"]["flags"] == ["degenerate"]
    references = {row["name"]: row for row in gender["references"]}
    assert references["Chance"]["balanced_accuracy"] == "0.500"
    assert references["Always the largest class"]["accuracy"] == "0.600"
    assert references["Best possible attack in this synthetic world"]["balanced_accuracy"] == "0.860"
    assert [row["detectable"] for row in gender["headline"]] == ["0.068", "0.068"]


def test_a_headline_chosen_in_some_folds_only_says_in_how_many(audit_document):
    headline = audit_document["targets"]["gender"]["headline"]
    headline["chosen"] = {"logistic": 0.8, "mlp": 0.2}
    assert summarize(audit_document)["targets"][0]["headline"][0]["chosen"] == "in 80 % of folds"
    headline["chosen"] = {"logistic": 1.0}
    assert summarize(audit_document)["targets"][0]["headline"][0]["chosen"] == ""


def test_an_attack_run_only_before_or_only_after_is_shown_all_the_same(demo_document):
    demo_document["before"]["gender"]["attacks"]["old"] = demo_document["before"]["gender"]["attacks"]["mlp"]
    del demo_document["before"]["gender"]["attacks"]["mlp"]
    attacks = {attack["attack"]: attack["rows"] for attack in summarize(demo_document)["targets"][0]["attacks"]}
    assert attacks["old"][1]["balanced_accuracy"]["value"] == MISSING
    assert attacks["mlp"][0]["balanced_accuracy"]["value"] == MISSING


def test_the_threat_model_follows_the_protocol(audit_document, demo_document):
    audit = {line["term"]: line["text"] for line in summarize(audit_document)["threat"]}
    assert "4 of every 5 users" in audit["Knows"]
    assert "2,000 users, 32 numbers each" in audit["Sees"]
    assert "Adapts" not in audit
    demo = {line["term"]: line["text"] for line in summarize(demo_document)["threat"]}
    assert demo["Wants"].startswith("to learn gender, age and job")
    assert "cloaked table" in demo["Adapts"]
    demo_document["protocol"]["attacker"] = "static"
    assert "Adapts" not in {line["term"] for line in summarize(demo_document)["threat"]}


def test_small_classes_lose_their_numbers_not_their_row(demo_document):
    demo_document["targets"]["gender"]["counts"]["F"] = 7
    for part in demo_document["utility"]["per_class"]["gender"]["F"].values():
        part["ndcg@10"]["n"] = 7
    summary = summarize(demo_document)
    recall = summary["targets"][0]["recall"][0]
    assert (recall["label"], recall["count"]) == ("F", "fewer than 10")
    assert [cell["value"] for cell in recall["cells"]] == [MISSING, MISSING]
    row = summary["utility"]["classes"][0]
    assert (row["n"], row["before"]["value"], row["difference"]["value"]) == ("fewer than 10", MISSING, MISSING)


def test_small_counts_are_not_told_in_words_either(demo_document):
    demo_document["warnings"] = ["job: class 'x' was left out, its 7 users are too few for 5 folds.", "12 users"]
    demo_document["defense"]["notes"] = ["1 users with unknown job went through the label-free map."]
    summary = summarize(demo_document)
    assert summary["warnings"][0].endswith("its fewer than 10 users are too few for 5 folds.")
    assert summary["warnings"][1] == "12 users"
    notes = [line["text"] for line in summary["protocol"] if line["term"] == "Note"]
    assert notes == ["fewer than 10 users with unknown job went through the label-free map."]


def test_an_audit_alone_has_no_utility_and_nothing_before(audit_document):
    summary = summarize(audit_document)
    assert summary["utility"] is None
    assert summary["compared"] is False
    assert [tile["term"] for tile in summary["cost"]] == ["Time"]
    assert [row["release"] for row in summary["targets"][0]["headline"]] == [""]


def test_a_bare_document_is_enough():
    summary = summarize({"schema": 1, "targets": {"gender": {"verdict": "none"}}})
    assert summary["verdicts"][0]["kind"] == "none"
    assert summary["targets"][0]["charts"] == []


def test_protocol_says_how_to_repeat_it(demo_document):
    lines = {line["term"]: line["text"] for line in summarize(demo_document)["protocol"]}
    assert lines["Seed"] == "0"
    assert lines["recveil"] == "0.1.0"
    assert lines["Folds"] == "5"
    assert lines["Defense"] == "sliced, strength 1"
    assert lines["Command"] == "recveil demo --seed 0 --out 'my report.html'"


def test_only_named_fields_are_taken_over(demo_document):
    for part in (demo_document, demo_document["input"], demo_document["protocol"], demo_document["defense"]):
        part["user_ids"] = ["alice-4711"]
    for target in (*demo_document["targets"].values(), *demo_document["before"].values()):
        target["users"] = target["headline"]["users"] = ["alice-4711"]
    assert "alice-4711" not in json.dumps(summarize(demo_document))


@pytest.mark.parametrize("schema", [None, 0, 2, "1"])
def test_another_schema_is_refused_with_what_to_do(audit_document, schema):
    audit_document["schema"] = schema
    with pytest.raises(DataError, match=r"schema .*reports on schema 1.*Make the document again"):
        summarize(audit_document)


@pytest.mark.parametrize("targets", [None, {}, []])
def test_a_document_without_targets_is_refused(audit_document, targets):
    audit_document["targets"] = targets
    with pytest.raises(DataError, match="no audited attribute"):
        summarize(audit_document)


def test_an_earlier_table_that_is_out_has_a_section_of_its_own(demo_document):
    assert summarize(demo_document)["past"] == []
    before = demo_document["before"]
    demo_document |= {"static": before, "two_releases": before}
    found = summarize(demo_document)
    assert "Not covered" not in {line["term"] for line in found["threat"]}
    assert {row["who"].split()[0] for row in found["past"]} == {"learned", "holds"}
    assert len(found["past"]) == 2 * len(before)
    page = render(demo_document)
    assert "If an earlier table is public" in page
