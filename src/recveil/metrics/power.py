"""The smallest leak that an audit with these users is sure to see, and what learning from few users costs it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from scipy import optimize, stats

from recveil.metrics.intervals import CONFIDENCE_LEVEL

__all__ = ["TARGET_POWER", "compute_advantage_error", "allow_for_learning", "compute_detection_threshold"]

TARGET_POWER = 0.95
"""How surely the smallest detectable leak would be seen."""


def compute_detection_threshold(folds: int, seeds: int, test_share: float) -> float:
    """How many standard errors a mean must lie above the null for its interval to exclude the null 95 % of the time.

    The standard error is that of one deal. More deals of the same users do not make the mean better known, they only
    steady the variance between folds, from which the corrected resampled t takes its own, wider, error.
    """
    J = folds * seeds
    bar = float(stats.t.ppf((1 + CONFIDENCE_LEVEL) / 2, J - 1)) * math.sqrt((1 / J + test_share) * folds)
    return float(optimize.brentq(lambda shift: stats.nct.sf(bar, J - 1, shift) - TARGET_POWER, bar, 10 * bar + 10))


def compute_advantage_error(advantage: float, counts: Sequence[int]) -> float:
    """The standard error of an advantage, from the spread of guesses that good."""
    K = len(counts)
    recall = min(0.5, 1 / K + advantage * (1 - 1 / K))
    return math.sqrt(sum(recall * (1 - recall) / n for n in counts)) / (K - 1)


def allow_for_learning(advantage: float, known: Sequence[float], d: int) -> float:
    """The best possible advantage behind one of this size, reached by an attacker who had to learn.

    `known` are the users of each class it learned from. Reckoned for Gaussian classes at a distance D in d dimensions:
    with estimated means an attacker separates them as if they lay D^2 / sqrt(D^2 + h) apart, h = d (1/n_1 + 1/n_2).
    """
    if advantage >= 1:
        return 1.0
    reached = 2 * float(stats.norm.ppf((1 + advantage) / 2))
    h = 2 * d * sum(1 / n for n in known) / len(known)
    # D^2 solves D^4 = reached^2 (D^2 + h).
    distance = math.sqrt((reached**2 + math.sqrt(reached**4 + 4 * reached**2 * h)) / 2)
    return min(1.0, advantage * distance / reached) if reached > 0 else 0.0
