"""A lower bound of epsilon from one run of an attack, to be held against the theoretical upper bound.

Steinke, Nasr and Jagielski, Privacy Auditing with One (1) Training Run (NeurIPS 2023): an attack guesses the membership
of those users of which it is most certain. Under (epsilon, 0) privacy the number of right guesses is at most that of
independent coins which fall right with probability e^epsilon / (1 + e^epsilon), although all users are in one release;
a delta adds a small term. The bound inverts this exactly. Without a delta it is the logit of the Clopper-Pearson bound
of the share of right guesses.

Limit: the theorem is for users who are members by independent fair coins.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy import optimize, stats

from recveil.core.errors import UsageError
from recveil.core.types import BoolArray, FloatArray, IntArray
from recveil.metrics.intervals import CONFIDENCE_LEVEL

__all__ = ["EmpiricalBound", "bound_epsilon_below", "estimate_epsilon"]

GUESSED_SHARES = (0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0)
"""Shares of the users that an attack may guess; the best one is chosen on users who are then set aside."""
MAX_EPSILON = 50.0


@dataclass(frozen=True)
class EmpiricalBound:
    """Epsilon that one attack proves at least.

    Attributes:
        epsilon: the lower bound, which holds with 95 % probability.
        attack: the attack that guessed.
        n_guesses: users whose membership it guessed.
        n_right: guesses that were right.
        n_users: users who could have been guessed about; as many more chose the attack.
    """

    epsilon: float
    attack: str
    n_guesses: int
    n_right: int
    n_users: int


def bound_epsilon_below(n_right: int, n_guesses: int, *, n_users: int, delta: float) -> float:
    """Compute the epsilon that so many right guesses exclude with 95 % probability; 0 if they exclude none.

    Args:
        n_right: right guesses.
        n_guesses: guesses, their number chosen without the truth.
        n_users: users who could have been guessed about.
        delta: delta of the guarantee under test.
    """
    if not 0 <= n_right <= n_guesses <= n_users:
        raise UsageError(f"{n_right} of {n_guesses} guesses about {n_users} users were right: the numbers must fall.")
    error = 1 - CONFIDENCE_LEVEL

    def exceed(epsilon: float) -> float:
        return _compute_p_value(n_right, n_guesses, n_users, epsilon, delta) - error

    if n_guesses == 0 or exceed(0.0) >= 0:
        return 0.0
    return MAX_EPSILON if exceed(MAX_EPSILON) < 0 else float(optimize.brentq(exceed, 0.0, MAX_EPSILON))


def estimate_epsilon(
    member: BoolArray, scores: Mapping[str, FloatArray], *, delta: float, rng: np.random.Generator
) -> EmpiricalBound:
    """Estimate the epsilon that the best of several attacks proves at least.

    A random half of the users chooses the attack, its direction and the number of guesses; the bound is computed on the
    other half.

    Args:
        member: whether each user is a member.
        scores: scores of the users by the name of the attack; the higher, the more likely a member.
        delta: delta of the guarantee under test.
        rng: source of the random halves.
    """
    if not scores:
        raise UsageError("No attack was given. An empirical epsilon needs the scores of at least one.")
    order = rng.permutation(len(member))
    chosen_on, judged_on = order[: len(order) // 2], order[len(order) // 2 :]
    plans = [
        _GuessPlan(name, sign * score, share)
        for name, score in scores.items()
        for sign in (1, -1)
        for share in GUESSED_SHARES
    ]
    best = max(plans, key=lambda plan: plan.judge(member, chosen_on, delta).epsilon)
    return best.judge(member, judged_on, delta)


@dataclass(frozen=True, eq=False)
class _GuessPlan:
    """An attack, and the share of users whose membership it guesses."""

    attack: str
    score: FloatArray
    share: float

    def judge(self, member: BoolArray, users: IntArray, delta: float) -> EmpiricalBound:
        """Call the highest scores members and as many of the lowest non-members, and count the right guesses."""
        ranked = member[users][np.argsort(-self.score[users], kind="stable")]
        per_side = min(max(1, int(len(users) * self.share / 2)), len(users) // 2)
        n_right = int(ranked[:per_side].sum() + (~ranked[len(ranked) - per_side :]).sum())
        epsilon = bound_epsilon_below(n_right, 2 * per_side, n_users=len(users), delta=delta)
        return EmpiricalBound(epsilon, self.attack, 2 * per_side, n_right, len(users))


def _compute_p_value(n_right: int, n_guesses: int, n_users: int, epsilon: float, delta: float) -> float:
    """Compute how likely so many right guesses are under (epsilon, delta) privacy, at most."""
    coin = 1 / (1 + math.exp(-epsilon))
    tail = float(stats.binom.sf(n_right - 1, n_guesses, coin))
    if delta == 0 or n_right == 0:
        return tail
    steps = np.arange(1, n_right + 1)
    just_below = np.cumsum(stats.binom.pmf(n_right - steps, n_guesses, coin))
    return min(1.0, tail + 2 * n_users * delta * float((just_below / steps).max()))
