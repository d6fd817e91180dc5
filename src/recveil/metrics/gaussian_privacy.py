"""Exact accounting of Gaussian mechanisms, and what a guarantee means for any attack.

A release with Gaussian noise of `noise` standard deviations per unit of sensitivity is mu-Gaussian private with
mu = 1 / noise (Dong, Roth and Su, Gaussian Differential Privacy, JRSS B 2022): to tell whether one user is in the data
is at best as easy as to tell N(0, 1) from N(mu, 1) by one draw. Several releases compose exactly, by the root of the
sum of squares, also where a later one depends on earlier ones. The (epsilon, delta) curve is that of Balle and Wang,
Improving the Gaussian Mechanism for Differential Privacy (ICML 2018).
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from scipy import optimize, special, stats

from recveil.core.errors import UsageError

__all__ = [
    "bound_attack_auc",
    "bound_attack_tpr",
    "calibrate_mu",
    "check_budget",
    "compose_mu",
    "compute_delta",
    "compute_epsilon",
]


def check_budget(epsilon: float, delta: float) -> None:
    """Refuse an epsilon that is not positive, and a delta outside of 0 to 1."""
    if not 0 < epsilon < math.inf:
        raise UsageError(f"`epsilon` is {epsilon:g}. Use a positive number, such as 2.")
    if not 0 < delta < 1:
        raise UsageError(f"`delta` is {delta:g}. Use a number between 0 and 1, such as 1e-5.")


def compose_mu(parts: Iterable[float]) -> float:
    """Compose the mu of several releases of the same data."""
    return math.hypot(*parts)


def compute_delta(epsilon: float, mu: float) -> float:
    """Compute the smallest delta at which a mu-Gaussian private release has this epsilon."""
    if mu <= 0:
        return 0.0
    if math.isinf(mu):
        return 1.0
    first = float(special.ndtr(mu / 2 - epsilon / mu))
    return max(0.0, first - math.exp(epsilon + float(special.log_ndtr(-mu / 2 - epsilon / mu))))


def compute_epsilon(delta: float, mu: float) -> float:
    """Compute the smallest epsilon at which a mu-Gaussian private release has this delta."""
    check_budget(1.0, delta)
    if math.isinf(mu):
        return math.inf
    if compute_delta(0.0, mu) <= delta:
        return 0.0
    highest = mu * mu / 2 - mu * float(special.ndtri(delta))  # there the first term alone is delta
    return float(optimize.brentq(lambda epsilon: compute_delta(epsilon, mu) - delta, 0.0, highest, xtol=1e-12))


def calibrate_mu(epsilon: float, delta: float) -> float:
    """Compute the largest mu, and so the least noise, that keeps epsilon and delta."""
    check_budget(epsilon, delta)
    highest = 1.0
    while compute_delta(epsilon, highest) <= delta:
        highest *= 2
    return float(optimize.brentq(lambda mu: compute_delta(epsilon, mu) - delta, 0.0, highest, xtol=1e-14))


def bound_attack_auc(mu: float, failure: float = 0.0) -> float:
    """Bound the AUC of any membership attack on a mu-Gaussian private release.

    `failure` is a probability with which the release may be worse than that; it is added to the bound.
    """
    return min(1.0, float(stats.norm.cdf(mu / math.sqrt(2))) + failure)


def bound_attack_tpr(fpr: float, mu: float, failure: float = 0.0) -> float:
    """Bound the share of members that any attack finds at a false positive rate.

    Args:
        fpr: share of non-members that the attack accuses.
        mu: the Gaussian guarantee.
        failure: probability with which the release may be worse than that; it is added to the bound.
    """
    if not 0 < fpr < 1:
        raise UsageError(f"`fpr` is {fpr:g}. A false positive rate lies between 0 and 1.")
    return min(1.0, float(special.ndtr(special.ndtri(fpr) + mu)) + failure)
