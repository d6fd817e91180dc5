"""An audit as SARIF 2.1.0, the format in which code hosts take the findings of analysis tools.

One result for each attribute that leaks (an error) or of which the audit can say nothing (a note); an attribute
without a leak is no finding. The place of a finding is the table that was audited.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from recveil.report.formatting import as_dict, text
from recveil.report.junit import Judgement, judgements
from recveil.workflows.documents import write_json

__all__ = ["sarif", "write_sarif"]

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"

RULES: list[dict[str, Any]] = [
    {
        "id": "attribute-leak",
        "name": "AttributeLeak",
        "shortDescription": {"text": "A personal attribute can be guessed from what is released."},
        "fullDescription": {
            "text": "An attacker who knows the attribute of some users guesses it for the others better than chance: "
            "the interval of the advantage excludes zero and the estimate reaches the margin of the audit."
        },
        "help": {
            "text": "Do not release this table as it is. Defend it (`recveil cloak`), audit it again, and release the "
            "defended table only."
        },
        "defaultConfiguration": {"level": "error"},
    },
    {
        "id": "inconclusive",
        "name": "Inconclusive",
        "shortDescription": {"text": "The audit can neither show nor exclude a leak of this attribute."},
        "fullDescription": {
            "text": "The interval of the advantage holds both chance and the margin, or no attacker made a usable "
            "guess. This is not the same as no leak."
        },
        "help": {"text": "Audit with more users, more repetitions (`--seeds`), or a wider margin (`--margin`)."},
        "defaultConfiguration": {"level": "note"},
    },
]
RULE_OF = {"leak": 0, "inconclusive": 1}


def sarif(document: Mapping[str, Any]) -> dict[str, Any]:
    """The SARIF log of an audit document, the one that `recveil audit --json` prints."""
    source = text(as_dict(document.get("input")).get("name") or "embeddings")
    driver = {"name": "recveil", "version": text(document.get("recveil") or "unknown"), "rules": RULES}
    found = [j for j in judgements(document) if j.verdict in RULE_OF]
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": [_result(judgement, source) for judgement in found]}],
    }


def write_sarif(document: Mapping[str, Any], path: str | Path) -> None:
    """Writes the log, whole or not at all."""
    write_json(path, sarif(document))


def _result(judgement: Judgement, source: str) -> dict[str, Any]:
    index = RULE_OF[judgement.verdict]
    rule = RULES[index]
    return {
        "ruleId": rule["id"],
        "ruleIndex": index,
        "level": rule["defaultConfiguration"]["level"],
        "message": {"text": _plain(judgement.sentence)},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": quote(source, safe="")},
                    "region": {"startLine": 1},  # a table has no lines, but code hosts do not show a finding without
                },
                "logicalLocations": [{"name": judgement.target, "kind": "attribute"}],
            }
        ],
        "partialFingerprints": {"primaryLocationLineHash": _fingerprint(judgement, source)},
        "properties": {"target": judgement.target, "verdict": judgement.verdict, **judgement.numbers},
    }


def _plain(sentence: str) -> str:
    """In a SARIF message braces are placeholders unless doubled, and `[...](...)` is a link; names make neither."""
    return sentence.replace("{", "{{").replace("}", "}}").replace("](", "] (")


def _fingerprint(judgement: Judgement, source: str) -> str:
    """The same from run to run, and different for two attributes of one table, which share their place."""
    return hashlib.sha256("\n".join((source, judgement.target)).encode()).hexdigest()[:16] + ":1"
