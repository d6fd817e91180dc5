"""Conditions on the numbers of an audit, for CI: `gender.advantage.low > 0.05` fails the build where it holds."""

from __future__ import annotations

import operator
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import typer

from recveil.errors import UsageError, unknown_name

__all__ = ["Gate", "judge", "parse_gate"]

OPERATORS = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}
METRICS = ("advantage", "balanced_accuracy", "accuracy", "macro_f1", "auc")
BOUNDS = ("value", "low", "high")
GRAMMAR = re.compile(r"\s*([^.\s]+)\.(\w+)\.(\w+)\s*(>=|<=|>|<)\s*([-+.\deE]+)\s*")
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

    def holds(self, targets: Mapping[str, Any]) -> bool | None:
        """Whether the condition is true; nothing where the audit could not measure it."""
        if self.target not in targets:
            raise unknown_name("audited target", self.target, targets)
        value = targets[self.target]["headline"][self.metric][self.bound]
        return None if value is None else bool(OPERATORS[self.sign](value, self.number))


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


def judge(gates: Sequence[Gate], document: Mapping[str, Any]) -> None:
    """Exit 1 where a gate's condition holds; 4 where none does but a verdict it hangs on is inconclusive."""
    targets = document["targets"]
    held = [gate for gate in gates if gate.holds(targets)]
    for gate in held:
        typer.echo(f"recveil: gate failed: {gate.text}", err=True)
    if held:
        raise typer.Exit(1)
    open_ = [gate for gate in gates if targets[gate.target]["verdict"] == "inconclusive" or gate.holds(targets) is None]
    for gate in open_:
        typer.echo(f"recveil: gate inconclusive, too few users to tell: {gate.text}", err=True)
    if open_:
        raise typer.Exit(4)
