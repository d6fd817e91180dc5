"""Confidence intervals over the folds of cross-validation, by the corrected resampled t of Nadeau and Bengio (2003).

Folds share training users, so their scores are correlated and a bootstrap over users covers too seldom. With J fold
scores of sample variance s^2 the variance of their mean is taken as

    (1 / J + n_test / n_train) s^2

in place of s^2 / J, with J - 1 degrees of freedom.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import stats

from recveil.core.types import Estimate, FloatArray

__all__ = [
    "CLEAR_LEVEL",
    "CONFIDENCE_LEVEL",
    "compute_corrected_error",
    "compute_corrected_p",
    "estimate_corrected_mean",
    "estimate_advantage",
]

CONFIDENCE_LEVEL = 0.95
"""Coverage of every interval that is shown."""

CLEAR_LEVEL = 0.999
"""Coverage of the interval by which a leak is clear: one table in a thousand without a leak may look like one."""

SCORE_TOLERANCE = 1e-12
"""Scores closer than this are equal: the mean of ten times 1/3 is not exactly 1/3."""


def compute_corrected_error(scores: FloatArray, test_share: float) -> float:
    """Compute the corrected standard error of the mean of fold scores.

    It is NaN for a single fold.

    `test_share` is n_test / n_train of a fold.
    """
    J = len(scores)
    return math.sqrt((1 / J + test_share) * float(np.var(scores, ddof=1))) if J > 1 else math.nan


def estimate_corrected_mean(
    scores: FloatArray, test_share: float, n: int, *, lowest: float = -math.inf, highest: float = math.inf
) -> Estimate:
    """Estimate the mean of fold scores with its corrected interval.

    Args:
        scores: score of each fold.
        test_share: n_test / n_train of a fold.
        n: number of users behind the scores.
        lowest: smallest possible score; the interval does not reach below it.
        highest: largest possible score.

    Returns:
        The mean with its 95 % interval; the ends are NaN for a single fold.
    """
    value = float(np.mean(scores))
    half = float(stats.t.ppf((1 + CONFIDENCE_LEVEL) / 2, len(scores) - 1)) * compute_corrected_error(scores, test_share)
    low, high = (float(np.clip(end, lowest, highest)) for end in (value - half, value + half))
    return Estimate(value, low, high, n)


def estimate_advantage(signed_scores: FloatArray, test_share: float, n: int) -> Estimate:
    """Estimate an advantage, floored at 0, from the signed advantage of each fold.

    A fold below chance even after relabeling is luck, or a leak that the relabeling missed; it never speaks for
    privacy. So the value and the lower end are at least 0, and the upper end is the larger of both distances from
    chance. With the corrected interval [low, high] of the signed mean the result is [max(0, low), max(-low, high)],
    and at most 1.

    Args:
        signed_scores: advantage of each fold, negative below chance.
        test_share: n_test / n_train of a fold.
        n: number of users behind the scores.

    Returns:
        The advantage with its 95 % interval, within [0, 1].
    """
    signed = estimate_corrected_mean(signed_scores, test_share, n)
    high = max(-signed.low, signed.high)
    return Estimate(max(0.0, signed.value), max(0.0, signed.low), high if math.isnan(high) else min(1.0, high), n)


def compute_corrected_p(scores: FloatArray, test_share: float, null: float, *, two_sided: bool) -> float:
    """Compute the corrected p-value for the hypothesis that the mean is `null`.

    Args:
        scores: score of each fold.
        test_share: n_test / n_train of a fold.
        null: mean under the hypothesis.
        two_sided: count deviations to both sides; else only means above `null`.

    Returns:
        The p-value; 0 or 1 if all folds are equal.
    """
    error = compute_corrected_error(scores, test_share)
    gap = float(np.mean(scores)) - null
    if not error > SCORE_TOLERANCE:  # all folds alike: no evidence either way unless they differ from the null
        return 1.0 if gap < -SCORE_TOLERANCE and not two_sided or abs(gap) <= SCORE_TOLERANCE else 0.0
    tail = float(stats.t.sf(abs(gap) / error if two_sided else gap / error, len(scores) - 1))
    return 2 * tail if two_sided else tail
