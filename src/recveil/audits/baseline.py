"""No worse than the last release: an audit document against the one that was kept of the release before."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recveil.core.errors import DataError
from recveil.report.formatting import as_dict, estimate, finite, text
from recveil.report.summary import SCHEMA

__all__ = ["Finding", "compare", "exit_code", "read_baseline"]

AGAIN = (
    "Run the audit of the last release again with this version: "
    "recveil audit --embeddings LAST.parquet --attributes A.parquet --out previous.json"
)
RULES = ("panel", "attacks", "attacker", "surface", "leak_ratio")
OPEN = ("unsettled", "missing")


@dataclass(frozen=True)
class Finding:
    """How one attribute compares with the last release; without a target it is about the two audits as a whole.

    The kind is `worse`, `better`, `not proven` (the intervals overlap), `unsettled` (the audits cannot tell),
    `missing` (audited then and not now) or `new` (audited now and not then).
    """

    kind: str
    target: str
    sentence: str


def read_baseline(path: str | Path) -> dict[str, Any]:
    """The audit document in this file, or an error that says how to get one that can be compared."""
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise DataError(f"Cannot read the baseline {path}: {error.strerror or error}. {AGAIN}.") from None
    except (ValueError, RecursionError):
        raise DataError(f"The baseline {path} is not a JSON document. {AGAIN}.") from None
    if not isinstance(document, dict) or "schema" not in document:
        raise DataError(f"The baseline {path} is not a document of `recveil audit`. {AGAIN}.")
    if document["schema"] != SCHEMA:
        raise DataError(
            f"The baseline {path} has schema {text(document['schema'])}, and this version compares schema {SCHEMA} "
            f"only. {AGAIN}."
        )
    if document.get("command") != "audit":
        made = text(document.get("command") or "nothing that is named")
        raise DataError(f"The baseline {path} was made by '{made}', and only an audit can be compared. {AGAIN}.")
    targets = as_dict(document.get("targets"))
    broken = [name for name, target in targets.items() if not _advantage(target)]
    if not targets or broken:
        lacks = f"has no advantage for '{text(broken[0])}'" if broken else "names no audited attribute"
        raise DataError(f"The baseline {path} {lacks}. {AGAIN}.")
    return document


def compare(document: Mapping[str, Any], baseline: Mapping[str, Any]) -> list[Finding]:
    """What got worse since the baseline, attribute by attribute, in the order of the document.

    Worse is a headline advantage whose whole interval lies above the old one, or a leak where there was none before.
    Intervals that overlap prove nothing, and are said to.
    """
    now, then = as_dict(document.get("targets")), as_dict(baseline.get("targets"))
    findings = _rules(as_dict(document.get("protocol")), as_dict(baseline.get("protocol")))
    for name, target in now.items():
        if name in then:
            findings.append(_compared(name, as_dict(target), as_dict(then[name])))
        else:
            verdict = text(as_dict(target).get("verdict"))
            said = f"{text(name)} was not audited in the baseline, so there is nothing to compare; now: {verdict}."
            findings.append(Finding("new", name, said))
    gone = [name for name in then if name not in now]
    findings += [
        Finding("missing", name, f"{text(name)} was audited in the baseline and is not now. Name it in --target.")
        for name in gone
    ]
    return findings


def exit_code(findings: Sequence[Finding]) -> int:
    """1 where something is worse; 4 where nothing is but the audits cannot tell; else 0."""
    kinds = {finding.kind for finding in findings}
    return 1 if "worse" in kinds else 4 if kinds.intersection(OPEN) else 0


def _rules(now: Mapping[str, Any], then: Mapping[str, Any]) -> list[Finding]:
    """A weaker panel finds less: numbers got under other rules do not show that a release is no worse."""
    changed = [key for key in RULES if key in now and key in then and now[key] != then[key]]
    if not changed:
        return []
    said = "; ".join(f"{key} {_listed(then[key])} then, {_listed(now[key])} now" for key in changed)
    hint = "Audit both releases under the same rules."
    return [Finding("unsettled", "", f"The audits were made under different rules ({said}). {hint}")]


def _compared(name: str, now: Mapping[str, Any], then: Mapping[str, Any]) -> Finding:
    new, old = _advantage(now), _advantage(then)
    low, high, old_low, old_high = (finite(end) for e in (new, old) for end in (e.get("low"), e.get("high")))
    verdicts = (then.get("verdict"), now.get("verdict"))
    numbers = f"advantage {_shown(old)} then, {_shown(new)} now"
    # Under another margin the same numbers get another verdict: only the intervals count then.
    judged_alike = now.get("margin") == then.get("margin")
    if judged_alike and verdicts[1] == "leak" and verdicts[0] != "leak":
        return Finding("worse", name, f"{text(name)} leaks now and did not before ({text(verdicts[0])}): {numbers}.")
    if low is None or high is None or old_low is None or old_high is None:
        return Finding("unsettled", name, f"{text(name)} has no interval to compare: {numbers}. {AGAIN}.")
    if low > old_high:
        return Finding("worse", name, f"{text(name)} leaks more than before: {numbers}.")
    if now.get("labels") != then.get("labels"):
        return Finding("unsettled", name, f"{text(name)} has other classes than before: {numbers}. {AGAIN}.")
    if high < old_low:
        return Finding("better", name, f"{text(name)} leaks less than before: {numbers}.")
    if verdicts == ("none", "inconclusive"):
        said = f"{text(name)} was free of a leak and the audit can no longer say so: {numbers}. Audit more users."
        return Finding("unsettled", name, said)
    return Finding("not proven", name, f"{text(name)} is not shown to be worse, the intervals overlap: {numbers}.")


def _advantage(target: Any) -> dict[str, Any]:
    return as_dict(as_dict(as_dict(target).get("headline")).get("advantage"))


def _shown(advantage: Mapping[str, Any]) -> str:
    parts = estimate(advantage)
    return f"{parts['value']} {parts['interval']}".strip()


def _listed(value: Any) -> str:
    return ", ".join(map(text, value)) if isinstance(value, list | tuple) else text(value)
