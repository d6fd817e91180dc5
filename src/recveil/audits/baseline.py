"""No worse than the last release: the result of an audit against the one that was kept of the release before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path

from pydantic import ValidationError

from recveil.core.errors import DataError
from recveil.core.json_files import describe_mistake, read_json_object
from recveil.core.result_parts import AttributeProtocol, ClassTarget, NumericTarget, Verdict
from recveil.core.results import SCHEMA_VERSION, AuditResult
from recveil.core.types import Estimate

__all__ = ["Finding", "compare_with_baseline", "exit_code_of", "read_baseline"]

ADVICE = (
    "Run the audit of the last release again with this version: "
    "recveil audit --embeddings LAST.parquet --attributes A.parquet --out previous.json"
)
COMPARED_RULES = ("panel", "attacks", "attacker", "surface", "leak_ratio")
UNDECIDED = ("unsettled", "missing")

Target = ClassTarget | NumericTarget


@dataclass(frozen=True)
class Finding:
    """How one attribute compares with the last release; without a target it is about the two audits as a whole.

    The kind is `worse`, `better`, `no worse` (not larger, the intervals overlap), `not proven` (larger, the intervals
    overlap), `unsettled` (the audits cannot decide), `missing` (audited then and not now) or `new` (audited now and not
    then).
    """

    kind: str
    target: str
    sentence: str


def read_baseline(path: str | Path) -> AuditResult:
    """Read the audit result in this file.

    Raises:
        DataError: the file holds no audit that can be compared; the error says how to make one.
    """
    document = read_json_object(path, name=f"The baseline {path}", advice=f"{ADVICE}.")
    if document.get("command") != "audit":
        raise DataError(f"The baseline {path} is not a result of `recveil audit`. {ADVICE}.")
    if document.get("schema_version") != SCHEMA_VERSION:
        given = str(document.get("schema_version", document.get("schema")))[:20]
        raise DataError(f"The baseline {path} has schema {given}, and this version reads {SCHEMA_VERSION}. {ADVICE}.")
    try:
        baseline = AuditResult.model_validate(document)
    except ValidationError as error:
        raise DataError(f"The baseline {path} is damaged ({describe_mistake(error)}). {ADVICE}.") from None
    if not baseline.targets:
        raise DataError(f"The baseline {path} names no audited attribute. {ADVICE}.")
    return baseline


def compare_with_baseline(result: AuditResult, baseline: AuditResult) -> list[Finding]:
    """Compare an audit with that of the last release, attribute by attribute.

    Worse is a headline advantage whose whole interval lies above the old one, or a leak where there was none before.
    Intervals that overlap prove nothing, and the finding says so.
    """
    findings = _compare_rules(result.protocol, baseline.protocol)
    for name, target in result.targets.items():
        if name in baseline.targets:
            findings.append(_compare_target(name, target, baseline.targets[name]))
        else:
            sentence = f"{name} was not audited in the baseline, so there is nothing to compare; now: {target.verdict}."
            findings.append(Finding("new", name, sentence))
    findings += [
        Finding("missing", name, f"{name} was audited in the baseline and is not now. Add it to the targets.")
        for name in baseline.targets
        if name not in result.targets
    ]
    return findings


def exit_code_of(findings: Sequence[Finding]) -> int:
    """Return 1 where something is worse, 4 where nothing is but the audits cannot decide, else 0."""
    kinds = {finding.kind for finding in findings}
    return 1 if "worse" in kinds else 4 if kinds.intersection(UNDECIDED) else 0


def _compare_rules(now: AttributeProtocol | None, then: AttributeProtocol | None) -> list[Finding]:
    """Report rules that differ: a weaker panel finds less, so its numbers do not show that a release is no worse."""
    if now is None or then is None:
        return []
    new, old = now.model_dump(), then.model_dump()
    changed = [key for key in COMPARED_RULES if new[key] != old[key]]
    if not changed:
        return []
    changes = "; ".join(f"{key} {_join_values(old[key])} then, {_join_values(new[key])} now" for key in changed)
    sentence = f"The audits were made under different rules ({changes}). Audit both releases under the same rules."
    return [Finding("unsettled", "", sentence)]


def _compare_target(name: str, now: Target, then: Target) -> Finding:
    new, old = now.headline.advantage, then.headline.advantage
    numbers = f"advantage {_format_estimate(old)} then, {_format_estimate(new)} now"
    # Under another margin the same numbers get another verdict: only the intervals count then.
    if now.margin == then.margin and now.verdict is Verdict.LEAK and then.verdict is not Verdict.LEAK:
        return Finding("worse", name, f"{name} leaks now and did not before ({then.verdict}): {numbers}.")
    if not all(isfinite(bound) for bound in (new.low, new.high, old.low, old.high)):
        return Finding("unsettled", name, f"{name} has no interval to compare: {numbers}. {ADVICE}.")
    if new.low > old.high:
        return Finding("worse", name, f"{name} leaks more than before: {numbers}.")
    if _labels_of(now) != _labels_of(then):
        return Finding("unsettled", name, f"{name} has other classes than before: {numbers}. {ADVICE}.")
    if new.high < old.low:
        return Finding("better", name, f"{name} leaks less than before: {numbers}.")
    if (then.verdict, now.verdict) == (Verdict.NONE, Verdict.INCONCLUSIVE):
        sentence = f"{name} had no leak and the audit can no longer show that: {numbers}. Audit more users."
        return Finding("unsettled", name, sentence)
    if new.value <= old.value:
        return Finding("no worse", name, f"{name} leaks no more than before: {numbers}.")
    return Finding("not proven", name, f"{name} is not shown to be worse, the intervals overlap: {numbers}.")


def _labels_of(target: Target) -> list[str]:
    return target.labels if isinstance(target, ClassTarget) else []


def _format_estimate(estimate: Estimate) -> str:
    return f"{estimate.value:.3f} [{estimate.low:.3f}, {estimate.high:.3f}]"


def _join_values(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
