"""Verdicts as JUnit XML, the format in which CI systems take the results of tests: one test for each attribute.

Failures are the gates that failed, as in the exit code of the audit: without a gate nothing fails, and a leak is a
passed test whose output says so. An inconclusive audit is a skipped test, which CI systems show apart from the passed
ones. An `error` would read like a crash. Times are omitted, so that two audits with the same findings write the same
bytes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree  # nosec B405

from recveil.core.files import write_atomically
from recveil.core.result_parts import ClassTarget, NumericTarget, Verdict
from recveil.core.results import AuditResult
from recveil.core.types import Estimate
from recveil.report.formatting import finite_or_none, format_text, redact_sentence

__all__ = ["TargetOutcome", "junit", "list_outcomes", "write_junit"]

AUDIT_SUITE = "recveil.audit"
GATE_SUITE = "recveil.gate"
INVALID_IN_XML = re.compile("[\ufffe\uffff]")  # `format_text` lets them through, an XML parser does not


@dataclass(frozen=True)
class TargetOutcome:
    """The verdict on one attribute, with its headline numbers named as gates name them."""

    target: str
    verdict: Verdict
    sentence: str
    numbers: dict[str, float | str]


def list_outcomes(result: AuditResult) -> list[TargetOutcome]:
    """Return the verdicts of an audit.

    Only numbers of the whole table are included: no class sizes, and no share of the largest class, which for two
    classes tells the size of the small one.
    """
    return [
        TargetOutcome(format_text(name), target.verdict, redact_sentence(target.sentence), _list_numbers(target))
        for name, target in result.targets.items()
    ]


def junit(result: AuditResult, failed_gates: Sequence[str] = ()) -> str:
    """Return the XML of an audit; each failed gate, in words, becomes a failed test of its own."""
    outcomes = list_outcomes(result)
    counts = {
        "tests": len(outcomes) + len(failed_gates),
        "failures": len(failed_gates),
        "errors": 0,
        "skipped": sum(outcome.verdict == Verdict.INCONCLUSIVE for outcome in outcomes),
    }
    attributes = {key: str(value) for key, value in counts.items()}
    root = ElementTree.Element("testsuites", {"name": "recveil", **attributes})
    suite = ElementTree.SubElement(root, "testsuite", {"name": AUDIT_SUITE, **attributes})
    _add_properties(suite, _list_settings(result))
    for outcome in outcomes:
        _add_case(suite, outcome)
    for gate in failed_gates:
        case = ElementTree.SubElement(suite, "testcase", {"classname": GATE_SUITE, "name": _clean_text(gate)})
        _add_outcome(case, "failure", "gate", f"Gate failed: {gate}")
    ElementTree.indent(root)
    # The declaration is written by hand: ElementTree would name the encoding of the machine.
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ElementTree.tostring(root, encoding="unicode")}\n'


def write_junit(result: AuditResult, path: str | Path, failed_gates: Sequence[str] = ()) -> None:
    """Write the XML, whole or not at all."""
    text = junit(result, failed_gates)
    with write_atomically(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


def _add_case(suite: ElementTree.Element, outcome: TargetOutcome) -> None:
    case = ElementTree.SubElement(suite, "testcase", {"classname": AUDIT_SUITE, "name": _clean_text(outcome.target)})
    _add_properties(case, {"verdict": outcome.verdict.value, **outcome.numbers})
    if outcome.verdict == Verdict.LEAK:
        ElementTree.SubElement(case, "system-out").text = _clean_text(f"Leak. {outcome.sentence}")
    elif outcome.verdict == Verdict.INCONCLUSIVE:
        _add_outcome(case, "skipped", "inconclusive", outcome.sentence)


def _add_outcome(case: ElementTree.Element, tag: str, kind: str, sentence: str) -> None:
    """Add the sentence twice, because some systems show the message and some the text."""
    shown = _clean_text(sentence)
    ElementTree.SubElement(case, tag, {"type": kind, "message": shown}).text = shown


def _add_properties(parent: ElementTree.Element, values: Mapping[str, float | str]) -> None:
    group = ElementTree.SubElement(parent, "properties")
    for name, value in values.items():
        ElementTree.SubElement(group, "property", {"name": name, "value": _clean_text(value)})


def _list_settings(result: AuditResult) -> dict[str, float | str]:
    source, rules = result.input, result.protocol
    settings: dict[str, float | str | None] = {
        "recveil_version": result.recveil_version,
        "input": source.name,
        "n_users": source.n_users,
        "d": source.d,
    }
    if rules is not None:
        settings |= {"panel": rules.panel, "surface": rules.surface, "folds": rules.folds, "repeats": rules.repeats}
        settings |= {"margin": rules.margin, "seed": rules.seed}
    return {name: value for name, value in settings.items() if value is not None}


def _list_numbers(target: ClassTarget | NumericTarget) -> dict[str, float | str]:
    headline = target.headline
    numbers: dict[str, float] = _list_ends("advantage", headline.advantage)
    if isinstance(target, ClassTarget):
        numbers |= _list_ends("balanced_accuracy", target.headline.balanced_accuracy)
    numbers |= {"p_value": headline.p_value, "chance": target.chance, "margin": target.margin}
    numbers |= {"detectable": target.detectable, "n": target.n}
    known: dict[str, float | str] = {
        name: value for name, value in numbers.items() if finite_or_none(value) is not None
    }
    return known | ({"attack": format_text(headline.attack)} if headline.attack else {})


def _list_ends(name: str, estimate: Estimate) -> dict[str, float]:
    return {f"{name}.value": estimate.value, f"{name}.low": estimate.low, f"{name}.high": estimate.high}


def _clean_text(value: float | str) -> str:
    return INVALID_IN_XML.sub("\ufffd", format_text(value))
