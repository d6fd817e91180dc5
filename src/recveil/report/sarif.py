"""An audit as SARIF 2.1.0, the format in which code hosts take the findings of analysis tools.

One result for each attribute that leaks (an error) or whose audit is inconclusive (a note); an attribute without a leak
is no finding. The location of a finding is the audited table.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from recveil.core.files import write_atomically
from recveil.core.result_parts import Verdict
from recveil.core.results import AuditResult
from recveil.report.formatting import format_text, hide_folders
from recveil.report.junit import TargetOutcome, list_outcomes

__all__ = ["sarif", "write_sarif"]

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"

Json = dict[str, Any]
"""A JSON object of the SARIF standard."""


@dataclass(frozen=True)
class SarifRule:
    """A kind of finding, with what it means and what to do."""

    id: str
    name: str
    level: str
    summary: str
    meaning: str
    help: str

    def to_json(self) -> Json:
        """Return the rule as the standard writes it."""
        texts = {"shortDescription": self.summary, "fullDescription": self.meaning, "help": self.help}
        return {
            "id": self.id,
            "name": self.name,
            **{key: {"text": text} for key, text in texts.items()},
            "defaultConfiguration": {"level": self.level},
        }


RULES = {
    Verdict.LEAK: SarifRule(
        id="attribute-leak",
        name="AttributeLeak",
        level="error",
        summary="A personal attribute can be guessed from what is released.",
        meaning="An attacker who knows the attribute of some users guesses it for the others better than chance: the "
        "interval of the advantage excludes zero and the estimate reaches the margin of the audit.",
        help="Do not release this table as it is. Defend it (`recveil cloak`), audit it again, and release the "
        "defended table only.",
    ),
    Verdict.INCONCLUSIVE: SarifRule(
        id="inconclusive",
        name="Inconclusive",
        level="note",
        summary="The audit can neither show nor exclude a leak of this attribute.",
        meaning="The interval of the advantage holds both chance and the margin, or no attacker made a usable guess. "
        "This is not the same as no leak.",
        help="Audit with more users, more repeats of cross-validation, or a wider margin.",
    ),
}


def sarif(result: AuditResult) -> Json:
    """Return the SARIF log of an audit."""
    table = format_text(hide_folders(result.input.name)) or "embeddings"
    rules = [rule.to_json() for rule in RULES.values()]
    driver = {"name": "recveil", "version": format_text(result.recveil_version), "rules": rules}
    findings = [_write_finding(outcome, table) for outcome in list_outcomes(result) if outcome.verdict in RULES]
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": findings}]}


def write_sarif(result: AuditResult, path: str | Path) -> None:
    """Write the log, whole or not at all."""
    text = json.dumps(sarif(result), indent=2, allow_nan=False) + "\n"
    with write_atomically(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def _write_finding(outcome: TargetOutcome, table: str) -> Json:
    rule = RULES[outcome.verdict]
    return {
        "ruleId": rule.id,
        "ruleIndex": list(RULES).index(outcome.verdict),
        "level": rule.level,
        "message": {"text": _escape_message(outcome.sentence)},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": quote(table, safe="")},
                    "region": {"startLine": 1},  # a table has no lines, but code hosts show no finding without one
                },
                "logicalLocations": [{"name": outcome.target, "kind": "attribute"}],
            }
        ],
        "partialFingerprints": {"primaryLocationLineHash": _make_fingerprint(outcome, table)},
        "properties": {"target": outcome.target, "verdict": outcome.verdict.value, **outcome.numbers},
    }


def _escape_message(sentence: str) -> str:
    """Return the sentence without SARIF's placeholders (`{0}`) and links (`[...](...)`)."""
    return sentence.replace("{", "{{").replace("}", "}}").replace("](", "] (")


def _make_fingerprint(outcome: TargetOutcome, table: str) -> str:
    """Return a code that stays the same from run to run, and differs for two attributes of one table."""
    return hashlib.sha256("\n".join((table, outcome.target)).encode()).hexdigest()[:16] + ":1"
