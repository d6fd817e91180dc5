"""An audit as JUnit XML, the test report that CI systems show: one test for each attribute.

A leak is a failure. An inconclusive audit is a skipped test: CI systems show those apart from the passed ones and do
not fail the build for them, which is what the exit code of the audit does too. As an `error` it would read like a
crash, and most systems would fail the build for it. Times are left out, so that two audits that find the same write
the same bytes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from recveil.core.files import writing
from recveil.report.formatting import as_dict, finite, text
from recveil.report.summary import summarize

__all__ = ["Judgement", "judgements", "junit", "write_junit"]

SUITE = "recveil.audit"
GATES = "recveil.gate"
METRICS = ("advantage", "balanced_accuracy")
BOUNDS = ("value", "low", "high")
NOT_IN_XML = re.compile("[\ufffe\uffff]")  # what `text` lets through and an XML parser refuses


@dataclass(frozen=True)
class Judgement:
    """What the audit says of one attribute, whatever the format it is written in."""

    target: str
    verdict: str
    sentence: str
    numbers: dict[str, float | str]


def judgements(document: Mapping[str, Any]) -> list[Judgement]:
    """The verdicts of an audit document with their headline numbers, named as `--fail-if` names them.

    Only numbers of the whole table are taken over: no class counts, no share of the largest class (of two classes it
    counts the small one as well), and nothing somebody added to the document.
    """
    cards = summarize(document)["verdicts"]
    return [
        Judgement(card["target"], card["kind"], card["lines"][-1]["verdict"]["sentence"], _numbers(as_dict(target)))
        for card, target in zip(cards, document["targets"].values(), strict=True)
    ]


def junit(document: Mapping[str, Any], gates_failed: Sequence[str] = ()) -> str:
    """The XML of an audit document.

    Args:
        document: What `recveil audit --json` prints.
        gates_failed: In words, each condition that made the build fail; each becomes a failed test of its own.
    """
    found = judgements(document)
    counts = {
        "tests": len(found) + len(gates_failed),
        "failures": sum(j.verdict == "leak" for j in found) + len(gates_failed),
        "errors": 0,
        "skipped": sum(j.verdict == "inconclusive" for j in found),
    }
    shown = {key: str(value) for key, value in counts.items()}
    root = ElementTree.Element("testsuites", {"name": "recveil", **shown})
    suite = ElementTree.SubElement(root, "testsuite", {"name": SUITE, **shown})
    _properties(suite, _suite_numbers(document))
    for judgement in found:
        _case(suite, judgement)
    for gate in gates_failed:
        case = ElementTree.SubElement(suite, "testcase", {"classname": GATES, "name": _clean(gate)})
        _outcome(case, "failure", "gate", f"Gate failed: {gate}")
    ElementTree.indent(root)
    # The declaration is written by hand: ElementTree would name the encoding of the machine.
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ElementTree.tostring(root, encoding="unicode")}\n'


def write_junit(document: Mapping[str, Any], path: str | Path, gates_failed: Sequence[str] = ()) -> None:
    """Writes the XML, whole or not at all."""
    page = junit(document, gates_failed)
    with writing(path) as temporary:
        temporary.write_text(page, encoding="utf-8", newline="\n")


def _case(suite: ElementTree.Element, judgement: Judgement) -> None:
    case = ElementTree.SubElement(suite, "testcase", {"classname": SUITE, "name": _clean(judgement.target)})
    _properties(case, {"verdict": judgement.verdict, **judgement.numbers})
    if judgement.verdict == "leak":
        _outcome(case, "failure", "leak", judgement.sentence)
    elif judgement.verdict == "inconclusive":
        _outcome(case, "skipped", "inconclusive", judgement.sentence)


def _outcome(case: ElementTree.Element, tag: str, kind: str, sentence: str) -> None:
    """Said twice, because some systems show the message and some the text."""
    shown = _clean(sentence)
    ElementTree.SubElement(case, tag, {"type": kind, "message": shown}).text = shown


def _properties(parent: ElementTree.Element, values: Mapping[str, Any]) -> None:
    group = ElementTree.SubElement(parent, "properties")
    for name, value in values.items():
        ElementTree.SubElement(group, "property", {"name": name, "value": _clean(value)})


def _suite_numbers(document: Mapping[str, Any]) -> dict[str, Any]:
    source, rules = as_dict(document.get("input")), as_dict(document.get("protocol"))
    values = {
        "recveil": document.get("recveil"),
        "input": source.get("name"),
        "n_users": source.get("n_users"),
        "d": source.get("d"),
        **{key: rules.get(key) for key in ("panel", "surface", "folds", "seeds", "margin", "seed")},
    }
    return {name: value for name, value in values.items() if value is not None}


def _numbers(target: Mapping[str, Any]) -> dict[str, float | str]:
    headline = as_dict(target.get("headline"))
    given = {f"{metric}.{bound}": as_dict(headline.get(metric)).get(bound) for metric in METRICS for bound in BOUNDS}
    given |= {"p_value": headline.get("p_value")}
    given |= {key: target.get(key) for key in ("chance", "margin", "detectable", "n")}
    known: dict[str, Any] = {name: value for name, value in given.items() if finite(value) is not None}
    return known | ({"attack": text(headline["attack"])} if headline.get("attack") else {})


def _clean(value: Any) -> str:
    return NOT_IN_XML.sub("\ufffd", text(value))
