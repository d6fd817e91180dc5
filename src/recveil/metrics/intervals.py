"""Intervals that mean what they say.

Folds share training users, so their scores are correlated and a bootstrap over users under-covers. The corrected
resampled t of Nadeau and Bengio (2003) widens the variance by n_test / n_train.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import stats

from recveil.core.types import Estimate, FloatArray

__all__ = [
    "CONFIDENCE_LEVEL",
    "compute_corrected_error",
    "compute_corrected_p",
    "estimate_corrected_mean",
    "estimate_advantage",
]

CONFIDENCE_LEVEL = 0.95

SCORE_TOLERANCE = 1e-12
"""Scores closer than this are equal: the mean of ten times 1/3 is not quite 1/3."""


def compute_corrected_error(scores: FloatArray, test_share: float) -> float:
    """The standard error of the mean of J fold scores, where `test_share` is n_test / n_train."""
    J = len(scores)
    return math.sqrt((1 / J + test_share) * float(np.var(scores, ddof=1))) if J > 1 else math.nan


def estimate_corrected_mean(scores: FloatArray, test_share: float, n: int) -> Estimate:
    """The mean of J fold scores with the corrected resampled t interval."""
    value = float(np.mean(scores))
    half = float(stats.t.ppf((1 + CONFIDENCE_LEVEL) / 2, len(scores) - 1)) * compute_corrected_error(scores, test_share)
    return Estimate(value, value - half, value + half, n)


def estimate_advantage(signed_scores: FloatArray, test_share: float, n: int) -> Estimate:
    """Estimate an advantage from the signed advantage of each fold: floored at 0, with an interval to match.

    A fold below chance even after relabelling is luck, or a leak that the relabelling missed; it never speaks for
    privacy. So the value and the lower end are at least 0, and the upper end is the larger of both distances from
    chance. With the corrected interval [low, high] of the signed mean the result is [max(0, low), max(-low, high)].

    Args:
        signed_scores: advantage of each fold, negative below chance.
        test_share: n_test / n_train of a fold.
        n: number of users behind the scores.

    Returns:
        The advantage with its 95 % interval; the upper end is not capped at 1.
    """
    signed = estimate_corrected_mean(signed_scores, test_share, n)
    return Estimate(max(0.0, signed.value), max(0.0, signed.low), max(-signed.low, signed.high), n)


def compute_corrected_p(scores: FloatArray, test_share: float, null: float, *, two_sided: bool) -> float:
    """The p-value of the corrected resampled t for a mean of `null` (greater, or two-sided)."""
    error = compute_corrected_error(scores, test_share)
    gap = float(np.mean(scores)) - null
    if not error > SCORE_TOLERANCE:  # all folds alike: no evidence either way unless they differ from the null
        return 1.0 if gap < -SCORE_TOLERANCE and not two_sided or abs(gap) <= SCORE_TOLERANCE else 0.0
    tail = float(stats.t.sf(abs(gap) / error if two_sided else gap / error, len(scores) - 1))
    return 2 * tail if two_sided else tail
