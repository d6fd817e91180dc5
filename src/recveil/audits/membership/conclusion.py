"""What a membership audit comes to: one word, the attack that did best, one sentence, and the curves behind it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from recveil.audits.membership.audit import EXPLAINED, Found, MembershipAudit
from recveil.core.types import Estimate, FloatArray

__all__ = ["DEFAULT_MARGIN", "judge_membership", "compute_roc_curves", "compute_roc_points"]

DEFAULT_MARGIN = 0.05
"""An AUC closer than this to one half is called no leak."""

MAX_CURVE_POINTS = 60


def judge_membership(audit: MembershipAudit, *, margin: float = DEFAULT_MARGIN) -> dict[str, Any]:
    """The verdict: `leak`, `explained` (by a rule), `none`, `inconclusive`, or `unknown` where nobody knows the truth.

    As in the other audits, a leak excludes chance and reaches the margin; without one, all intervals lie inside it.
    """
    if audit.truth is None:
        said = "Nobody said who of the target is a member, so there are scores of its users and no verdict."
        return {"kind": "unknown", "best": None, "sentence": said}
    best = max(audit.attacks, key=lambda name: abs(audit.attacks[name].auc.value - 0.5))
    kind = decide_verdict(audit.attacks.values(), margin)
    size = f"({len(audit.truth):,} users, {int(audit.truth.sum()):,} of them members)"
    return {"kind": kind, "best": best, "sentence": f"{_write_sentence(kind, audit.attacks, best, margin)} {size}."}


def compute_roc_curves(audit: MembershipAudit) -> dict[str, list[list[float]]]:
    """For each attack and rule pairs of false and true positive rate, evenly apart on a logarithmic scale."""
    if audit.truth is None:
        return {}
    return {
        name: compute_roc_points(audit.scores[name][audit.truth], audit.scores[name][~audit.truth])
        for name in audit.attacks
    }


def compute_roc_points(inside: FloatArray, outside: FloatArray) -> list[list[float]]:
    """The share of the first above the lowest bar that at most a share of the second pass, from one person to all."""
    bars, n = np.sort(outside)[::-1], len(outside)
    allowed = np.unique(np.geomspace(1, n, min(MAX_CURVE_POINTS, n)).astype(np.int64))
    found = [float((inside > bars[a]).mean()) if a < n else 1.0 for a in allowed]
    return [[round(a / n, 6), round(tpr, 6)] for a, tpr in zip(allowed.tolist(), found, strict=True)]


def decide_verdict(found: Iterable[Found], margin: float) -> str:
    found = list(found)
    told = [f for f in found if not f.auc.low <= 0.5 <= f.auc.high and abs(f.auc.value - 0.5) >= margin]
    if not told:
        inside = all(max(f.auc.high - 0.5, 0.5 - f.auc.low) < margin for f in found)
        return "none" if inside else "inconclusive"
    ahead = any(f.ahead is not None and f.ahead.low > 0 for f in told)
    only_inverted = all(f.inverted and not f.rule for f in told)
    return "leak" if ahead or only_inverted else "explained"


def _write_sentence(kind: str, attacks: dict[str, Found], best: str, margin: float) -> str:
    mine = [name for name, found in attacks.items() if not found.rule]
    rule = max((name for name in attacks if name not in mine), key=lambda name: abs(attacks[name].auc.value - 0.5))
    of_rule = f"the rule '{rule}' reaches an AUC of {_format_auc(attacks[rule].auc)}"
    if kind == "none":
        return f"No attack and no rule told members from others by {margin:g} of AUC or more: {_describe_attack(best, attacks)}"
    if kind == "inconclusive":
        return (
            f"These users are too few to say whether members can be told from others: {_describe_attack(best, attacks)}"
        )
    strongest = max(mine, key=lambda name: abs(attacks[name].auc.value - 0.5)) if mine else None
    if kind == "explained":
        rest = f", and no attack is ahead of every rule ({_describe_attack(strongest, attacks)})" if strongest else ""
        return f"Members can be told from others, {EXPLAINED}: {of_rule}{rest}"
    ahead = [name for name in mine if (gap := attacks[name].ahead) is not None and gap.low > 0]
    leader = max(ahead, key=lambda name: attacks[name].auc.value) if ahead else str(strongest)
    what = "ahead of every rule" if ahead else "which tells as much"
    return (
        f"An outsider can tell whom the model was trained on: '{leader}' reaches an AUC of "
        f"{_format_auc(attacks[leader].auc)}, {what} ({of_rule})"
    )


def _describe_attack(name: str, attacks: dict[str, Found]) -> str:
    return f"'{name}' comes furthest, with an AUC of {_format_auc(attacks[name].auc)}"


def _format_auc(e: Estimate) -> str:
    return f"{e.value:.3f} [{e.low:.3f}, {e.high:.3f}]{', reliably wrong' if e.high < 0.5 else ''}"
