"""Membership scores: how well they separate members from non-members, with intervals that hold near 0 and 1 too.

A higher score indicates a member; equal scores count half.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from recveil.core.errors import DataError, UsageError
from recveil.core.types import Estimate, FloatArray
from recveil.metrics.intervals import CONFIDENCE_LEVEL

__all__ = [
    "DetectionRates",
    "estimate_auc",
    "estimate_auc_difference",
    "estimate_balanced_accuracy",
    "choose_threshold",
    "estimate_proportion",
    "estimate_tpr_at_fpr",
]

Members = NDArray[np.bool_]

MIN_FALSE_POSITIVES = 10
"""A false positive rate is reported only if it allows at least this many false positives."""


@dataclass(frozen=True)
class DetectionRates:
    """The share of members detected when at most `fpr` of the non-members are accused.

    Attributes:
        fpr: false positive rate allowed.
        tpr: share of members detected.
        realized_fpr: share of non-members accused.
    """

    fpr: float
    tpr: Estimate
    realized_fpr: Estimate


def estimate_auc(member: Members, score: FloatArray, *, level: float = CONFIDENCE_LEVEL) -> Estimate:
    """Estimate the area under the ROC curve (interval: DeLong et al. 1988).

    The interval is computed on the log-odds scale so that it stays within bounds. Where the scores have no spread (all
    pairs won, or all tied), it is the exact binomial one for as many disjoint pairs of a member and a non-member as
    there are, all with the same outcome.

    Args:
        member: whether each user is a member.
        score: score of each user.
        level: coverage of the interval.

    Returns:
        The area with its interval.

    Raises:
        DataError: a score is not finite, or all users are members or none is.
    """
    inside, outside = _compute_placements(member, score)
    value = float(inside.mean())
    error = _compute_error(inside, outside)
    if not 0 < value < 1 or not error > 0:
        margin = _compute_exact_margin(member, level)
        return Estimate(value, max(0.0, value - margin), min(1.0, value + margin), len(score))
    middle, half = math.log(value / (1 - value)), _compute_normal_quantile(level) * error / (value * (1 - value))
    low, high = (float(special.expit(middle + side * half)) for side in (-1, 1))
    return Estimate(value, low, high, len(score))


def estimate_auc_difference(
    member: Members, score: FloatArray, other: FloatArray, *, level: float = CONFIDENCE_LEVEL
) -> Estimate:
    """Estimate by how much one AUC exceeds another on the same users.

    The interval is DeLong's paired one.

    Args:
        member: whether each user is a member.
        score: score of each user.
        other: score to compare with.
        level: coverage of the interval.

    Returns:
        The difference with its interval.
    """
    first, second = _compute_placements(member, score), _compute_placements(member, other)
    inside, outside = first[0] - second[0], first[1] - second[1]
    value, error = float(inside.mean()), _compute_error(inside, outside)
    half = _compute_normal_quantile(level) * error if error > 0 else _compute_exact_margin(member, level)
    return Estimate(value, max(-1.0, value - half), min(1.0, value + half), len(score))


def estimate_tpr_at_fpr(member: Members, score: FloatArray, fpr: float) -> DetectionRates | None:
    """Estimate the share of members detected at a false positive rate.

    Members are detected above the lowest threshold that at most `fpr` of the non-members exceed.

    Both shares have exact (Clopper-Pearson) intervals. With fewer than 10 / fpr non-members the rate cannot be
    measured.

    Args:
        member: whether each user is a member.
        score: score of each user.
        fpr: false positive rate allowed.

    Returns:
        The rates, or None with too few non-members.

    Raises:
        UsageError: `fpr` does not lie between 0 and 1.
    """
    if not 0 < fpr < 1:
        raise UsageError(f"fpr is {fpr:g}. A false positive rate lies between 0 and 1.")
    _check_scores(member, score)
    outside = np.sort(score[~member])[::-1]
    if len(outside) * fpr < MIN_FALSE_POSITIVES - 1e-9:
        return None
    threshold = outside[int(math.floor(len(outside) * fpr + 1e-9))]
    tpr = estimate_proportion(int((score[member] > threshold).sum()), int(member.sum()))
    return DetectionRates(fpr, tpr, estimate_proportion(int((outside > threshold).sum()), len(outside)))


def estimate_balanced_accuracy(member: Members, score: FloatArray, threshold: float) -> Estimate:
    """Estimate the balanced accuracy of calling users members from a threshold on.

    The interval combines the exact ones of the two shares by the MOVER method of Zou and Donner (2008).

    Args:
        member: whether each user is a member.
        score: score of each user.
        threshold: score from which on a user is called a member.

    Returns:
        The balanced accuracy with its interval.
    """
    _check_scores(member, score)
    hit = (score >= threshold) == member
    parts = [estimate_proportion(int(hit[group].sum()), int(group.sum())) for group in (member, ~member)]
    value = sum(p.value for p in parts) / 2
    below = math.hypot(*(p.value - p.low for p in parts)) / 2
    above = math.hypot(*(p.high - p.value for p in parts)) / 2
    return Estimate(value, max(0.0, value - below), min(1.0, value + above), len(score))


def choose_threshold(member: Members, score: FloatArray) -> float:
    """Choose the threshold with the best balanced accuracy.

    It lies midway between two scores. Choose it on shadow users, never on the users under attack.
    """
    _check_scores(member, score)
    order = np.argsort(-score, kind="stable")
    ranked, is_member = score[order], member[order]
    gain = np.cumsum(is_member) / member.sum() - np.cumsum(~is_member) / (~member).sum()
    last_of_ties = np.append(np.diff(ranked) != 0, False)  # the last would call all users members
    if not last_of_ties.any():
        return float(ranked[0])
    at = int(np.argmax(np.where(last_of_ties, gain, -np.inf)))
    return float(ranked[at] + (ranked[at + 1] - ranked[at]) / 2)


def estimate_proportion(hits: int, n: int, *, level: float = CONFIDENCE_LEVEL) -> Estimate:
    """Estimate a share with its exact (Clopper-Pearson) interval.

    Args:
        hits: number of successes.
        n: number of trials.
        level: coverage of the interval.

    Returns:
        The share with its interval.
    """
    tail = (1 - level) / 2
    low = float(special.betaincinv(hits, n - hits + 1, tail)) if hits > 0 else 0.0
    high = float(special.betaincinv(hits + 1, n - hits, 1 - tail)) if hits < n else 1.0
    return Estimate(hits / n, low, high, n)


def _compute_placements(member: Members, score: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Compute the share of opponents that each user is on the right side of.

    That is for each member the share of non-members it beats, for each non-member the share of members that beat it.
    """
    _check_scores(member, score)
    ranks = stats.rankdata(score)
    inside = ranks[member] - stats.rankdata(score[member])
    outside = ranks[~member] - stats.rankdata(score[~member])
    return inside / (~member).sum(), 1 - outside / member.sum()


def _compute_error(inside: FloatArray, outside: FloatArray) -> float:
    """Compute the standard error of an AUC, or of a difference, from placements."""
    if min(len(inside), len(outside)) < 2:
        return 0.0
    return math.sqrt(float(np.var(inside, ddof=1)) / len(inside) + float(np.var(outside, ddof=1)) / len(outside))


def _compute_exact_margin(member: Members, level: float) -> float:
    """Compute how far a share can fall short of 1 when all disjoint pairs were won."""
    pairs = min(int(member.sum()), int((~member).sum()))
    return 1 - estimate_proportion(pairs, pairs, level=level).low


def _compute_normal_quantile(level: float) -> float:
    return float(stats.norm.ppf((1 + level) / 2))


def _check_scores(member: Members, score: FloatArray) -> None:
    if member.shape != score.shape or member.dtype != np.bool_:
        raise UsageError(
            f"Got {len(score)} scores and {len(member)} membership flags of type {member.dtype}. Give each user one "
            "score and one boolean flag."
        )
    if not np.isfinite(score).all():
        raise DataError(f"{int((~np.isfinite(score)).sum())} of {len(score)} scores are not finite numbers.")
    if member.all() or not member.any():
        kind = "members" if member.any() else "non-members"
        raise DataError(f"All {len(member)} users are {kind}. Give both members and non-members.")
