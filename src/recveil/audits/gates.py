"""Conditions on the numbers of an audit, for CI: `gender.advantage.low > 0.05` fails the build where it holds.

For a membership audit the name is that of an attack or a rule: `dlmia.auc.low > 0.55`. A name with spaces or dots is
written in quotes: `"gender & age".advantage.low > 0.05`.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from recveil.core.errors import UsageError, unknown_name
from recveil.core.result_parts import Verdict
from recveil.core.results import AuditResult, CloakResult, MembershipResult, TrainResult
from recveil.core.types import Estimate

__all__ = ["Gate", "GateReport", "check_gate_names", "evaluate_gates", "parse_gate"]

OPERATORS = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}
METRICS = ("advantage", "balanced_accuracy", "accuracy", "macro_f1", "auc", "r2", "correlation", "tpr_at_fpr.RATE")
BOUNDS = ("value", "low", "high")
NAME = r"""(?:"([^"]+)"|'([^']+)'|([^.\s]+))"""
GRAMMAR = re.compile(rf"\s*{NAME}\.(\w+(?:\.\d\.\d+)?)\.(\w+)\s*(>=|<=|>|<)\s*([-+.\deE]+)\s*")
HELP = (
    "Write TARGET.METRIC.BOUND OPERATOR NUMBER, as in gender.advantage.low > 0.05; metrics: "
    f"{', '.join(METRICS)}; bounds: {', '.join(BOUNDS)}; operators: > >= < <=. Quote a name with blanks or dots."
)

Measures = Mapping[str, Estimate | None]


@dataclass(frozen=True)
class Gate:
    """One condition on the headline of one target, or on one membership attack."""

    text: str
    target: str
    metric: str
    bound: str
    sign: str
    number: float

    def holds(self, measures: Measures) -> bool | None:
        """Tell whether the condition is true; None where the audit could not measure it."""
        if self.metric not in measures:
            raise unknown_name(f"metric of '{self.target}'", self.metric, measures)
        estimate = measures[self.metric]
        value = None if estimate is None else {b: v for b, v in estimate.to_dict().items() if b in BOUNDS}[self.bound]
        return None if value is None else bool(OPERATORS[self.sign](value, self.number))


@dataclass(frozen=True)
class GateReport:
    """Conditions that hold (the build fails) and conditions that the audit cannot decide."""

    failed: tuple[str, ...] = ()
    inconclusive: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """1 where a gate failed, 4 where none failed but one is inconclusive, else 0."""
        return 1 if self.failed else 4 if self.inconclusive else 0


def parse_gate(text: str) -> Gate:
    """Parse a condition.

    Raises:
        UsageError: the text does not follow the grammar, which the error shows.
    """
    match = GRAMMAR.fullmatch(text)
    if not match:
        raise UsageError(f"Cannot read the gate '{text}'. {HELP}")
    double, single, bare, metric, bound, sign, number = match.groups()
    known = metric in METRICS or metric.startswith("tpr_at_fpr.")
    if not known or bound not in BOUNDS:
        raise UsageError(f"Cannot read the gate '{text}': there is no '{metric}.{bound}'. {HELP}")
    try:
        return Gate(text.strip(), double or single or bare, metric, bound, sign, float(number))
    except ValueError:
        raise UsageError(f"Cannot read the gate '{text}': '{number}' is not a number. {HELP}") from None


def check_gate_names(gates: Sequence[Gate], names: Iterable[str]) -> None:
    """Refuse gates on names that will not be audited; call it before the work."""
    known = list(names)
    for gate in gates:
        if gate.target not in known:
            raise unknown_name("audited target", gate.target, known)


def evaluate_gates(
    gates: Sequence[Gate], result: AuditResult | CloakResult | TrainResult | MembershipResult
) -> GateReport:
    """Evaluate the conditions on a result."""
    if isinstance(result, MembershipResult):
        measures = {name: _membership_measures(result, name) for name in result.attacks}
        verdicts = dict.fromkeys(measures, result.verdict)
    else:
        measures = {name: _estimates(dict(target.headline)) for name, target in result.targets.items()}
        verdicts = {name: target.verdict for name, target in result.targets.items()}
    check_gate_names(gates, measures)
    answers = {gate: gate.holds(measures[gate.target]) for gate in gates}
    failed = tuple(gate.text for gate, holds in answers.items() if holds)
    inconclusive = tuple(
        gate.text
        for gate, holds in answers.items()
        if holds is None or (not holds and verdicts[gate.target] is Verdict.INCONCLUSIVE)
    )
    return GateReport(failed, inconclusive)


def _estimates(values: Mapping[str, object]) -> dict[str, Estimate | None]:
    return {name: value for name, value in values.items() if isinstance(value, Estimate)}


def _membership_measures(result: MembershipResult, name: str) -> dict[str, Estimate | None]:
    attack = result.attacks[name]
    rates = {
        f"tpr_at_fpr.{fpr}": None if point is None else Estimate(point.value, point.low, point.high, point.n)
        for fpr, point in attack.tpr_at_fpr.items()
    }
    return {**_estimates(dict(attack)), **rates}
