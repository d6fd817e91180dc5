"""Statistical power of an audit: the smallest advantage that it detects, given its users and its folds."""

from __future__ import annotations

import math
from collections.abc import Sequence

from scipy import optimize, stats

from recveil.metrics.intervals import CONFIDENCE_LEVEL

__all__ = ["TARGET_POWER", "allow_for_learning", "compute_advantage_error", "compute_detection_threshold"]

TARGET_POWER = 0.95
"""Probability with which an audit detects the smallest detectable advantage."""


def compute_detection_threshold(folds: int, repeats: int, test_share: float) -> float:
    """Compute the distance from chance that is detected with 95 % power.

    The standard error is that of one repeat of cross-validation. More repeats with the same users do not make the mean
    better known; they only steady the variance between folds, from which the corrected resampled t takes its own, wider
    error. So the t statistic is noncentral t, and the threshold is the noncentrality at which it exceeds its critical
    value with 95 % probability.

    Args:
        folds: number of folds.
        repeats: repeats of cross-validation.
        test_share: n_test / n_train of a fold.

    Returns:
        The threshold in standard errors.
    """
    J = folds * repeats
    critical = float(stats.t.ppf((1 + CONFIDENCE_LEVEL) / 2, J - 1)) * math.sqrt((1 / J + test_share) * folds)

    def excess_power(shift: float) -> float:
        return float(stats.nct.sf(critical, J - 1, shift)) - TARGET_POWER

    return float(optimize.brentq(excess_power, critical, 10 * critical + 10))


def compute_advantage_error(advantage: float, counts: Sequence[int]) -> float:
    """Compute the binomial standard error of an advantage.

    `counts` are the users of each class. The error is largest at a recall of 1/2, which is used from there on.
    """
    K = len(counts)
    recall = min(0.5, 1 / K + advantage * (1 - 1 / K))
    return math.sqrt(sum(recall * (1 - recall) / n for n in counts)) / (K - 1)


def allow_for_learning(advantage: float, known: Sequence[float], d: int) -> float:
    """Bound the best possible advantage by one that had to be learned.

    For Gaussian classes at distance D in d dimensions, an attacker with estimated means separates them as if they were
    D^2 / sqrt(D^2 + h) apart, where h = d (1/n_1 + 1/n_2).

    Args:
        advantage: the advantage that was reached.
        known: users of each class that the attacker learned from.
        d: dimensions of the vectors.

    Returns:
        The advantage of an attacker who knows the distributions, at most 1.
    """
    if advantage >= 1:
        return 1.0
    reached = 2 * float(stats.norm.ppf((1 + advantage) / 2))
    h = 2 * d * sum(1 / n for n in known) / len(known)
    # D^2 solves D^4 = reached^2 (D^2 + h).
    distance = math.sqrt((reached**2 + math.sqrt(reached**4 + 4 * reached**2 * h)) / 2)
    return min(1.0, advantage * distance / reached) if reached > 0 else 0.0
