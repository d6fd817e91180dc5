"""Conditions on the numbers of an audit, for CI: `gender.advantage.low > 0.05` fails the build where it holds.

For a membership audit the name is that of an attack or a rule: `dlmia.auc.low > 0.55`.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from recveil.audits.baseline import compare, exit_code, read_baseline
from recveil.audits.membership.audit import FALSE_POSITIVE_RATES
from recveil.core.errors import UsageError, unknown_name
from recveil.report.junit import write_junit
from recveil.report.sarif import write_sarif

__all__ = ["Checks", "Gate", "parse_gate"]

OPERATORS = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}
RATES = tuple(f"tpr_at_fpr.{fpr:g}" for fpr in FALSE_POSITIVE_RATES)
METRICS = ("advantage", "balanced_accuracy", "accuracy", "macro_f1", "auc", "r2", "correlation", *RATES)
BOUNDS = ("value", "low", "high")
GRAMMAR = re.compile(r"\s*([^.\s]+)\.(\w+(?:\.\d\.\d+)?)\.(\w+)\s*(>=|<=|>|<)\s*([-+.\deE]+)\s*")
HELP = (
    "Write TARGET.METRIC.BOUND OPERATOR NUMBER, as in gender.advantage.low > 0.05; metrics: "
    f"{', '.join(METRICS)}; bounds: {', '.join(BOUNDS)}; operators: > >= < <=."
)


@dataclass(frozen=True)
class Gate:
    """One condition on the headline of one target."""

    text: str
    target: str
    metric: str
    bound: str
    sign: str
    number: float

    def holds(self, measured: Mapping[str, Mapping[str, Any]]) -> bool | None:
        """Whether the condition is true; nothing where the audit could not measure it."""
        self.check_name(measured)
        mine = measured[self.target]
        if self.metric not in mine:
            raise unknown_name(f"metric of '{self.target}'", self.metric, [m for m in METRICS if m in mine])
        value = None if mine[self.metric] is None else mine[self.metric][self.bound]
        return None if value is None else bool(OPERATORS[self.sign](value, self.number))

    def check_name(self, known: Iterable[str]) -> None:
        """An error with the nearest match where nothing is audited under this name."""
        if self.target not in (names := list(known)):
            raise unknown_name("audited target", self.target, names)


def parse_gate(text: str) -> Gate:
    """The condition in this text, or an error that shows the grammar."""
    found = GRAMMAR.fullmatch(text)
    if not found:
        raise UsageError(f"Cannot read --fail-if '{text}'. {HELP}")
    target, metric, bound, sign, number = found.groups()
    if metric not in METRICS or bound not in BOUNDS:
        raise UsageError(f"Cannot read --fail-if '{text}': there is no '{metric}.{bound}'. {HELP}")
    try:
        return Gate(text.strip(), target, metric, bound, sign, float(number))
    except ValueError:
        raise UsageError(f"Cannot read --fail-if '{text}': '{number}' is not a number. {HELP}") from None


@dataclass(frozen=True)
class Checks:
    """All that may fail a build: conditions on the numbers, and the last release that must not be undercut."""

    gates: tuple[Gate, ...] = ()
    baseline: Mapping[str, Any] | None = None

    @classmethod
    def of(cls, texts: Sequence[str], baseline: Path | None) -> Checks:
        """Read both before the work, so that a slip of the pen costs nothing."""
        return cls(tuple(parse_gate(text) for text in texts), None if baseline is None else read_baseline(baseline))

    def check_names(self, known: Iterable[str]) -> None:
        """See before the work that the conditions are about what will be audited."""
        names = list(known)
        for gate in self.gates:
            gate.check_name(names)

    def judge(self, document: Mapping[str, Any], *, junit: Path | None = None, sarif: Path | None = None) -> None:
        """Write what CI reads, then exit 1 where something failed, 4 where it cannot be told."""
        held, unsure = self._gates(document)
        findings = [] if self.baseline is None else compare(document, self.baseline)
        worse = [finding.sentence for finding in findings if finding.kind == "worse"]
        if junit is not None:
            write_junit(document, junit, [*held, *worse])
        if sarif is not None:
            write_sarif(document, sarif)
        for text in held:
            typer.echo(f"recveil: gate failed: {text}", err=True)
        for text in unsure:
            typer.echo(f"recveil: gate inconclusive, too few users to tell: {text}", err=True)
        for finding in findings:
            typer.echo(f"recveil: baseline, {finding.kind}: {finding.sentence}", err=True)
        codes = {exit_code(findings), 1 if held else 0, 4 if unsure else 0}
        if codes != {0}:
            raise typer.Exit(1 if 1 in codes else 4)

    def _gates(self, document: Mapping[str, Any]) -> tuple[list[str], list[str]]:
        """The conditions that hold, and those that cannot be told."""
        measured, verdicts = _measured(document)
        answers = {gate: gate.holds(measured) for gate in self.gates}
        held = [gate.text for gate, holds in answers.items() if holds]
        unsure = [
            gate.text
            for gate, holds in answers.items()
            if holds is None or (not holds and verdicts[gate.target] == "inconclusive")
        ]
        return held, unsure


def _measured(document: Mapping[str, Any]) -> tuple[dict[str, Mapping[str, Any]], dict[str, str]]:
    """By target, or by membership attack: the estimates of each metric, and the verdict."""
    if document.get("command") != "membership":
        targets = document["targets"]
        return {n: t["headline"] for n, t in targets.items()}, {n: t["verdict"] for n, t in targets.items()}
    measured: dict[str, Mapping[str, Any]] = {
        name: {**found, **{f"tpr_at_fpr.{fpr}": rate for fpr, rate in found["tpr_at_fpr"].items()}}
        for name, found in document["attacks"].items()
    }
    return measured, dict.fromkeys(measured, document["verdict"]["kind"])
