"""The numbers of a result in rows: what, before or after, which attack, which metric, value and interval."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING

from recveil.core.membership_parts import MembershipFindings
from recveil.core.result_parts import AttackResult, ClassTarget, NumericAttackResult, NumericTarget, Utility
from recveil.core.results import AuditResult, CloakResult, Document, MembershipResult, TrainResult
from recveil.core.types import Estimate

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["NumberRow", "list_numbers", "tabulate"]

HEADLINE = "headline"


@dataclass(frozen=True)
class NumberRow:
    """One number with its 95 % interval; `attack` is empty for the ranking metrics."""

    target: str
    release: str
    attack: str
    metric: str
    value: float
    low: float
    high: float
    n: int


def list_numbers(document: Document) -> list[NumberRow]:
    """Return the numbers of an audit, of a defense or of a trained model; other results have tables of their own."""
    match document:
        case AuditResult():
            return list(_list_targets(document.targets, ""))
        case CloakResult() | TrainResult():
            rows = [*_list_targets(document.before, "before"), *_list_targets(document.targets, "after")]
            return rows + ([] if document.utility is None else list(_list_utility(document.utility)))
        case MembershipResult():
            before = [] if document.before is None else list(_list_members(document.before, "before"))
            return [*before, *_list_members(document, "after" if before else "")]
    return []


def tabulate(document: Document) -> pa.Table:
    """Return the numbers as an Arrow table."""
    import pyarrow as pa

    rows = [asdict(row) for row in list_numbers(document)]
    types = {"value": pa.float64(), "low": pa.float64(), "high": pa.float64(), "n": pa.int64()}
    schema = pa.schema([(field.name, types.get(field.name, pa.string())) for field in fields(NumberRow)])
    return pa.Table.from_pylist(rows, schema=schema)


def _list_targets(targets: Mapping[str, ClassTarget | NumericTarget], release: str) -> Iterator[NumberRow]:
    for name, target in targets.items():
        attacks: Mapping[str, AttackResult | NumericAttackResult] = {HEADLINE: target.headline, **target.attacks}
        for attack, result in attacks.items():
            for metric, estimate in _list_estimates(result):
                yield _make_row(name, release, attack, metric, estimate)


def _list_members(findings: MembershipFindings, release: str) -> Iterator[NumberRow]:
    for attack, result in findings.attacks.items():
        for metric in ("auc", "balanced_accuracy"):
            estimate = getattr(result, metric)
            if estimate is not None:
                yield _make_row("membership", release, attack, metric, estimate)


def _list_utility(utility: Utility) -> Iterator[NumberRow]:
    parts = {"before": utility.before, "after": utility.after, "difference": utility.difference}
    for release, estimates in parts.items():
        for metric, estimate in estimates.items():
            yield _make_row("", release, "", metric, estimate)


def _list_estimates(result: AttackResult | NumericAttackResult) -> list[tuple[str, Estimate]]:
    values = ((name, getattr(result, name)) for name in type(result).model_fields)
    return [(name, value) for name, value in values if isinstance(value, Estimate)]


def _make_row(target: str, release: str, attack: str, metric: str, estimate: Estimate) -> NumberRow:
    return NumberRow(target, release, attack, metric, estimate.value, estimate.low, estimate.high, estimate.n)
