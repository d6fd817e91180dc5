"""How well a score tells members from others, with intervals that hold at the ends of the scale too.

A higher score speaks for a member; equal scores count half.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from recveil.core.errors import DataError, UsageError
from recveil.core.types import Estimate, FloatArray
from recveil.metrics.intervals import CONFIDENCE_LEVEL

__all__ = [
    "OperatingPoint",
    "estimate_auc",
    "estimate_auc_difference",
    "estimate_balanced_accuracy",
    "choose_threshold",
    "estimate_proportion",
    "estimate_tpr_at_fpr",
]

Members = NDArray[np.bool_]

MIN_FALSE_POSITIVES = 10
"""A false positive rate is spoken of only where at least this many false positives are allowed by it."""


@dataclass(frozen=True)
class OperatingPoint:
    """The share of members found where at most `fpr` of the others are accused; `realized` is the share that was."""

    fpr: float
    tpr: Estimate
    realized: Estimate

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {**self.tpr.to_dict(), "fpr": self.fpr, "realized_fpr": self.realized.to_dict()}


def estimate_auc(member: Members, score: FloatArray, *, level: float = CONFIDENCE_LEVEL) -> Estimate:
    """The area under the ROC curve with DeLong's interval (1988), on the log-odds scale so that it stays in bounds.

    Where the scores leave no spread to judge by (all pairs won, or all tied), the interval is that of the exact
    binomial for as many disjoint pairs of a member and another as there are, all of which ended alike.
    """
    inside, outside = _compute_placements(member, score)
    value = float(inside.mean())
    error = _compute_error(inside, outside)
    if not 0 < value < 1 or not error > 0:
        room = _compute_exact_margin(member, level)
        return Estimate(value, max(0.0, value - room), min(1.0, value + room), len(score))
    middle, half = math.log(value / (1 - value)), _compute_normal_quantile(level) * error / (value * (1 - value))
    low, high = (float(_logistic(middle + side * half)) for side in (-1, 1))
    return Estimate(value, low, high, len(score))


def estimate_auc_difference(
    member: Members, score: FloatArray, other: FloatArray, *, level: float = CONFIDENCE_LEVEL
) -> Estimate:
    """How much larger the AUC of `score` is than that of `other` on the same users: DeLong's paired interval."""
    mine, theirs = _compute_placements(member, score), _compute_placements(member, other)
    inside, outside = mine[0] - theirs[0], mine[1] - theirs[1]
    value, error = float(inside.mean()), _compute_error(inside, outside)
    half = _compute_normal_quantile(level) * error if error > 0 else _compute_exact_margin(member, level)
    return Estimate(value, max(-1.0, value - half), min(1.0, value + half), len(score))


def estimate_tpr_at_fpr(member: Members, score: FloatArray, fpr: float) -> OperatingPoint | None:
    """The share of members above the lowest bar that at most `fpr` of the others pass; None with too few others.

    Both shares come with exact (Clopper-Pearson) intervals. Fewer than 10 / fpr others cannot tell such a rate.
    """
    if not 0 < fpr < 1:
        raise UsageError(f"A false positive rate of {fpr:g} was asked for. It must lie between 0 and 1.")
    _check_scores(member, score)
    others = np.sort(score[~member])[::-1]
    if len(others) * fpr < MIN_FALSE_POSITIVES - 1e-9:
        return None
    bar = others[int(math.floor(len(others) * fpr + 1e-9))]
    found, accused = int((score[member] > bar).sum()), int((others > bar).sum())
    return OperatingPoint(fpr, estimate_proportion(found, int(member.sum())), estimate_proportion(accused, len(others)))


def estimate_balanced_accuracy(member: Members, score: FloatArray, threshold: float) -> Estimate:
    """The mean of the shares of members at or above the threshold and of others below it.

    The interval joins the exact ones of the two shares (the MOVER method of Zou and Donner, 2008).
    """
    _check_scores(member, score)
    hit = (score >= threshold) == member
    parts = [estimate_proportion(int(hit[who].sum()), int(who.sum())) for who in (member, ~member)]
    value = sum(p.value for p in parts) / 2
    below = math.hypot(*(p.value - p.low for p in parts)) / 2
    above = math.hypot(*(p.high - p.value for p in parts)) / 2
    return Estimate(value, max(0.0, value - below), min(1.0, value + above), len(score))


def choose_threshold(member: Members, score: FloatArray) -> float:
    """The threshold of the best balanced accuracy, half way between two scores: to be chosen on shadow users only."""
    _check_scores(member, score)
    order = np.argsort(-score, kind="stable")
    ranked, is_member = score[order], member[order]
    gain = np.cumsum(is_member) / member.sum() - np.cumsum(~is_member) / (~member).sum()
    last_of_ties = np.append(np.diff(ranked) != 0, False)  # the last place would call everybody a member
    if not last_of_ties.any():
        return float(ranked[0])
    at = int(np.argmax(np.where(last_of_ties, gain, -np.inf)))
    return float(ranked[at] + (ranked[at + 1] - ranked[at]) / 2)


def estimate_proportion(hits: int, n: int, *, level: float = CONFIDENCE_LEVEL) -> Estimate:
    """A share with its exact (Clopper-Pearson) interval."""
    tail = (1 - level) / 2
    low = float(special.betaincinv(hits, n - hits + 1, tail)) if hits > 0 else 0.0
    high = float(special.betaincinv(hits + 1, n - hits, 1 - tail)) if hits < n else 1.0
    return Estimate(hits / n, low, high, n)


def _compute_placements(member: Members, score: FloatArray) -> tuple[FloatArray, FloatArray]:
    """For each member the share of the others it beats, for each other the share of members that beat it."""
    _check_scores(member, score)
    ranks = stats.rankdata(score)
    inside = ranks[member] - stats.rankdata(score[member])
    outside = ranks[~member] - stats.rankdata(score[~member])
    return inside / (~member).sum(), 1 - outside / member.sum()


def _compute_error(inside: FloatArray, outside: FloatArray) -> float:
    if min(len(inside), len(outside)) < 2:
        return 0.0
    return math.sqrt(float(np.var(inside, ddof=1)) / len(inside) + float(np.var(outside, ddof=1)) / len(outside))


def _compute_exact_margin(member: Members, level: float) -> float:
    """By how much a share may fall short of 1 when each of the disjoint pairs was won."""
    pairs = min(int(member.sum()), int((~member).sum()))
    return 1 - estimate_proportion(pairs, pairs, level=level).low


def _compute_normal_quantile(level: float) -> float:
    return float(stats.norm.ppf((1 + level) / 2))


def _logistic(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x > -700 else 0.0


def _check_scores(member: Members, score: FloatArray) -> None:
    if member.shape != score.shape or member.dtype != np.bool_:
        raise UsageError(
            f"There are {len(score)} scores and {len(member)} marks of type {member.dtype}. Each user needs one score "
            "and one boolean mark."
        )
    if not np.isfinite(score).all():
        raise DataError(f"{int((~np.isfinite(score)).sum())} of {len(score)} scores are not finite numbers.")
    if member.all() or not member.any():
        kind = "a member" if member.any() else "no member"
        raise DataError(
            f"Each of the {len(member)} users is {kind}. Members and others are needed, to tell them apart."
        )
