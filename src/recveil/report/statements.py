"""Plain sentences about numbers: how often an attacker is right, and what a defense costs each class."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from recveil.core.membership_parts import MembershipFindings
from recveil.core.result_parts import ClassTarget, NumericTarget, Utility, UtilityChange
from recveil.core.types import Estimate
from recveil.report.formatting import (
    MISSING,
    finite_or_none,
    format_count,
    format_estimate,
    format_number,
    format_text,
    select_hidden_classes,
)

__all__ = [
    "choose_main_metric",
    "count_class_users",
    "describe_attack_success",
    "describe_cost",
    "describe_evidence",
    "describe_pair_success",
    "describe_power",
    "find_weakest",
    "format_relative_change",
    "summarize_attack_success",
    "summarize_pair_success",
]

MAX_CLASSES_LISTED = 3
UNUSABLE = "No attacker made a usable guess."


def describe_attack_success(target: ClassTarget | NumericTarget) -> str:
    """Say in plain numbers how often the headline attacker is right, and what guessing gets."""
    if isinstance(target, NumericTarget):
        explained = finite_or_none(target.headline.r2.value)
        if explained is None:
            return UNUSABLE
        share = f"{100 * max(explained, 0.0):.0f} %"
        return f"The best attacker explains {share} of the variation between users; guessing the mean explains 0 %."
    right = finite_or_none(target.headline.balanced_accuracy.value)
    if right is None:
        return UNUSABLE
    sentence = f"The best attacker is right for {_per_hundred(right)} of 100 users; guessing gets "
    sentence += f"{_per_hundred(target.chance)}."
    if target.headline.inverted or target.headline.balanced_accuracy.high < target.chance:
        sentence += " Guesses that are reliably wrong tell as much as right ones."
    return sentence


def summarize_attack_success(target: ClassTarget | NumericTarget) -> str:
    """Return the same in a few words, for a comparison."""
    if isinstance(target, NumericTarget):
        share = finite_or_none(target.headline.r2.value)
        return "" if share is None else f"explains {100 * max(share, 0.0):.0f} %"
    right = finite_or_none(target.headline.balanced_accuracy.value)
    return "" if right is None else f"right for {_per_hundred(right)} of 100 users"


def describe_evidence(target: ClassTarget | NumericTarget) -> str:
    """Return the numbers behind a verdict in one line."""
    parts = [
        f"Advantage {format_estimate(target.headline.advantage)}",
        f"attack: {format_text(target.headline.attack)}",
        f"{format_count(target.n)} users",
    ]
    return " · ".join(parts)


def describe_power(target: ClassTarget | NumericTarget) -> str:
    """Say which advantage the audit would have detected."""
    detectable = finite_or_none(target.detectable)
    if detectable is None or detectable > 1:
        return f"With {format_count(target.n)} users the audit detects no advantage with 95 % power"
    return (
        f"With {format_count(target.n)} users the audit detects an advantage of {format_number(detectable, 2)} "
        "or more with 95 % power"
    )


def find_weakest(targets: Iterable[ClassTarget | NumericTarget]) -> ClassTarget | NumericTarget:
    """Return the audit with the least power: what it detects, the others detect as well."""
    return max(targets, key=lambda target: finite_or_none(target.detectable) or math.inf)


def describe_pair_success(findings: MembershipFindings) -> str:
    """Say how often the best attack tells a member from a non-member; empty where nobody knows the members."""
    attack = findings.attacks.get(findings.best_attack or "")
    auc = None if attack is None else finite_or_none(attack.auc.value)
    if attack is None or auc is None:
        return ""
    kind = "rule" if attack.is_rule else "attack"
    sentence = (
        f"Given a member and a non-member, the best {kind} picks the member in {_per_hundred(auc)} of 100 pairs; "
        "guessing gets 50."
    )
    return f"{sentence} Scores that are reliably wrong tell as much as right ones." if auc < 0.5 else sentence


def summarize_pair_success(findings: MembershipFindings) -> str:
    """Return the same in a few words, for a comparison."""
    attack = findings.attacks.get(findings.best_attack or "")
    auc = None if attack is None else finite_or_none(attack.auc.value)
    return "" if auc is None else f"picks the member in {_per_hundred(auc)} of 100 pairs"


def describe_cost(utility: Utility) -> str:
    """Say what a defense costs in the main ranking metric, and who pays it; empty where it was not measured."""
    metric = choose_main_metric(utility.difference)
    overall = format_relative_change(utility, metric)
    if overall == MISSING:
        return ""
    classes = [_describe_payers(name, parts, metric) for name, parts in utility.per_class.items()]
    return " ".join([f"{metric.upper()} changes by {overall}.", *(text for text in classes if text)])


def _describe_payers(name: str, classes: Mapping[str, UtilityChange], metric: str) -> str:
    hidden = select_hidden_classes({label: count_class_users(part, metric) for label, part in classes.items()})
    changes = {
        format_text(label): change
        for label, part in classes.items()
        if label not in hidden and (change := _relative_change(part, metric)) is not None
    }
    if not changes:
        return ""
    shown = {label: f"{_format_percent(change)} for {label}" for label, change in changes.items()}
    if len(changes) > MAX_CLASSES_LISTED:
        worst, best = (choose(changes, key=changes.__getitem__) for choose in (min, max))
        return f"By {format_text(name)}: from {shown[worst]} to {shown[best]}."
    return f"By {format_text(name)}: {', '.join(shown.values())}."


def format_relative_change(part: UtilityChange, metric: str) -> str:
    """Return the paired change of a metric in per cent of its value before, with its interval."""
    change, base = part.difference.get(metric), _value_before(part, metric)
    if change is None or not base or finite_or_none(change.value) is None:
        return MISSING
    value, low, high = (100 * number / base for number in (change.value, change.low, change.high))
    shown = format_estimate(Estimate(value, low, high, change.n), 1, signed=True)
    return f"{shown.value} % {shown.interval}".strip()


def _relative_change(part: UtilityChange, metric: str) -> float | None:
    change, base = part.difference.get(metric), _value_before(part, metric)
    return None if change is None or not base else finite_or_none(100 * change.value / base)


def _value_before(part: UtilityChange, metric: str) -> float | None:
    return finite_or_none(part.before[metric].value) if metric in part.before else None


def count_class_users(part: UtilityChange, metric: str) -> int | None:
    """Return the number of users behind the utility of a class; None where it was not measured."""
    estimate = part.after.get(metric) or part.before.get(metric)
    return None if estimate is None else estimate.n


def choose_main_metric(metrics: Mapping[str, Estimate]) -> str:
    """Return the metric in which costs are stated: NDCG@10 where it was measured, else the first."""
    return "ndcg@10" if "ndcg@10" in metrics else next(iter(metrics), "")


def _per_hundred(share: float) -> str:
    return f"{100 * share:.0f}"


def _format_percent(value: float) -> str:
    return f"{format_number(value, 1, signed=True)} %"
