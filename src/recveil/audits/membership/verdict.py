"""The verdict on membership, its sentence, and the curves behind it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from recveil.audits.membership.audit import MembershipAudit, differs_from_chance
from recveil.core.membership_parts import MembershipAttackResult, MembershipFindings
from recveil.core.result_parts import Verdict
from recveil.core.types import Estimate, FloatArray
from recveil.metrics.intervals import CLEAR_LEVEL, CONFIDENCE_LEVEL

__all__ = ["DEFAULT_MARGIN", "compute_roc_curves", "compute_roc_points", "decide_verdict", "judge_membership"]

DEFAULT_MARGIN = 0.05
"""An AUC closer than this to one half is called no leak."""

MAX_CURVE_POINTS = 60


def judge_membership(audit: MembershipAudit, *, margin: float = DEFAULT_MARGIN) -> MembershipFindings:
    """Judge an audit: verdict, strongest attack, sentence and curves.

    The verdict is `unknown` where the members of the target are not known.
    """
    if audit.truth is None:
        return MembershipFindings(
            n_users=len(audit.users),
            n_members=None,
            verdict=Verdict.UNKNOWN,
            sentence="The members of the target are not known, so there are scores of its users and no verdict.",
            best_attack=None,
            attacks={},
            notes=audit.notes,
        )
    verdict = decide_verdict(audit.attacks.values(), margin=margin)
    n_members = int(audit.truth.sum())
    size = f"Scored: {len(audit.truth):,} users, {n_members:,} of them members."
    return MembershipFindings(
        n_users=len(audit.users),
        n_members=n_members,
        verdict=verdict,
        sentence=f"{_write_sentence(verdict, audit.attacks, margin)}. {size}",
        best_attack=_find_strongest(audit.attacks),
        attacks=audit.attacks,
        roc=compute_roc_curves(audit),
        notes=audit.notes,
    )


def decide_verdict(results: Iterable[MembershipAttackResult], *, margin: float = DEFAULT_MARGIN) -> Verdict:
    """Return `leak`, `explained`, `none` or `inconclusive`.

    What is detected excludes chance and reaches the margin. A leak needs one detection that is clear, that is at a
    joint 99.9 %: at the 95 % of the intervals shown, one table in twenty without a leak would be called one. Between
    the two levels the verdict is `inconclusive` and never `none`, which asks that all intervals lie inside the margin.
    A leak is `explained` where no attack is ahead of every rule: the serving rule, not the training, separates the
    classes. A rule that cannot be told from chance explains nothing, and attacks that are reliably wrong while no rule
    detects anything are a leak too.
    """
    results = list(results)
    detected = [r for r in results if _is_detected(r, margin)]
    if not any(r.is_clear for r in detected):
        all_inside = all(max(r.auc.high - 0.5, 0.5 - r.auc.low) < margin for r in results)
        return Verdict.NONE if all_inside else Verdict.INCONCLUSIVE
    only_inverted_attacks = all(r.inverted and not r.is_rule for r in detected)
    rules_tell_something = any(r.is_rule and differs_from_chance(r.auc) for r in results)
    is_leak = any(_is_ahead(r) for r in detected) or only_inverted_attacks or not rules_tell_something
    return Verdict.LEAK if is_leak else Verdict.EXPLAINED


def compute_roc_curves(audit: MembershipAudit) -> dict[str, list[list[float]]]:
    """Compute pairs of false and true positive rate for each attack and rule.

    They are evenly spaced on a logarithmic scale.
    """
    if audit.truth is None:
        return {}
    return {
        name: compute_roc_points(audit.scores[name][audit.truth], audit.scores[name][~audit.truth])
        for name in audit.attacks
    }


def compute_roc_points(member_scores: FloatArray, nonmember_scores: FloatArray) -> list[list[float]]:
    """Compute the share of members found at growing false positive rates.

    The rates run from one accused non-member to all of them.
    """
    thresholds, n = np.sort(nonmember_scores)[::-1], len(nonmember_scores)
    allowed = np.unique(np.geomspace(1, n, min(MAX_CURVE_POINTS, n)).astype(np.int64))
    shares = [float((member_scores > thresholds[a]).mean()) if a < n else 1.0 for a in allowed]
    return [[round(a / n, 6), round(share, 6)] for a, share in zip(allowed.tolist(), shares, strict=True)]


def _is_detected(result: MembershipAttackResult, margin: float) -> bool:
    return differs_from_chance(result.auc) and abs(result.auc.value - 0.5) >= margin


def _is_ahead(result: MembershipAttackResult) -> bool:
    return result.ahead_of_rules is not None and result.ahead_of_rules.low > 0


def _find_strongest(results: Mapping[str, MembershipAttackResult]) -> str:
    return max(results, key=lambda name: abs(results[name].auc.value - 0.5))


def _write_sentence(verdict: Verdict, results: Mapping[str, MembershipAttackResult], margin: float) -> str:
    name = _find_strongest(results)
    strongest = f"the strongest, '{name}', reaches an AUC of {_format_auc(results[name].auc)}"
    if verdict is Verdict.NONE:
        return f"No attack and no rule separates members from non-members by {margin:g} of AUC or more: {strongest}"
    if verdict is Verdict.INCONCLUSIVE:
        detected = {name: result for name, result in results.items() if _is_detected(result, margin)}
        if detected:
            return _write_unclear_sentence(detected)
        return f"Too few users to say whether members can be told from non-members: {strongest}"
    attacks = {name: result for name, result in results.items() if not result.is_rule}
    rules = {name: result for name, result in results.items() if result.is_rule}
    best_rule = f"the rule {_describe_attack(_find_strongest(rules), rules)}"
    if verdict is Verdict.EXPLAINED:
        rest = ""
        if attacks:
            rest = f"; no attack is ahead of every rule ({_describe_attack(_find_strongest(attacks), attacks)})"
        return f"Members can be told from non-members, but the serving rule explains it: {best_rule}{rest}"
    ahead = {name: result for name, result in attacks.items() if _is_ahead(result)}
    leader = max(ahead, key=lambda name: ahead[name].auc.value) if ahead else _find_strongest(attacks)
    reason = "ahead of every rule" if ahead else "which no rule explains"
    return (
        f"An outsider can tell which users the model was trained on: {_describe_attack(leader, attacks)}, {reason} "
        f"({best_rule})"
    )


def _write_unclear_sentence(results: Mapping[str, MembershipAttackResult]) -> str:
    return (
        "It is not clear whether members can be told from non-members: "
        f"{_describe_attack(_find_strongest(results), results)}, which differs from one half at "
        f"{100 * CONFIDENCE_LEVEL:g} % and not at the {100 * CLEAR_LEVEL:g} % that a leak needs. More users, or more "
        "reference models for attacks that use them, may resolve it"
    )


def _describe_attack(name: str, results: Mapping[str, MembershipAttackResult]) -> str:
    return f"'{name}' reaches an AUC of {_format_auc(results[name].auc)}"


def _format_auc(auc: Estimate) -> str:
    return f"{auc.value:.3f} [{auc.low:.3f}, {auc.high:.3f}]{', reliably wrong' if auc.high < 0.5 else ''}"
