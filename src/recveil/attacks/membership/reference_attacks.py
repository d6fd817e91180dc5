"""Attacks by reference models: LiRA and RMIA, on what models that had a user say of it, and models that had not.

An attacker who may ask the target for scores trains models like it, each on a random half of the users, and compares.
That is more than the other attacks have, who see lists. `likelihood` holds the two tests; here they judge users, by a
signal for each user or for each pair of user and item.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from recveil.attacks.membership.likelihood import SPREADS, lira, rmia, user_means
from recveil.core.errors import UsageError, unknown_name
from recveil.core.types import FloatArray, IntArray

__all__ = ["REFERENCED", "RMIA", "Evidence", "LiRA", "ReferenceAttack"]

LEVELS = ("user", "pair")
Rows = tuple[FloatArray, NDArray[np.bool_], FloatArray]


@dataclass(frozen=True, eq=False)
class Evidence:
    """Log-odds that models give to pairs of user and item: `signal[pair, r]` of reference r, `observed` of the target.

    `user` says whose each pair is, in order; `inside[user, r]` whether reference r was trained on the user. Users
    without a pair are possible, and nothing is known of them.
    """

    user: IntArray
    signal: FloatArray
    observed: FloatArray
    inside: NDArray[np.bool_]

    def rows(self, level: str, of: Callable[[FloatArray], FloatArray]) -> Rows:
        """A row for each pair, or for each user who has any: the mean over the pairs, both of what `of` makes."""
        signal, observed = of(self.signal), of(self.observed)
        if level == "pair":
            return signal, self.inside[self.user], observed
        who, own = np.unique(self.user, return_inverse=True)
        means = np.stack([user_means(own, column) for column in (*signal.T, observed)], axis=1)
        return means[:, :-1], self.inside[who], means[:, -1]

    def users(self, score: FloatArray, level: str, *, nothing: float) -> FloatArray:
        """One score for each user: the mean over the pairs, and `nothing` for those without."""
        who, own = np.unique(self.user, return_inverse=True)
        scores = np.full(len(self.inside), nothing)
        scores[who] = user_means(own, score) if level == "pair" else score
        return scores


@dataclass(frozen=True)
class LiRA:
    """LiRA: are the target's scores for a user more likely from a model that had the user, or from one that had not?

    `level` is `"user"` or `"pair"`, where the ratios of a user's pairs are averaged; `spread` is `"pooled"`, one
    variance for all, as few reference models need, or `"row"`.
    """

    level: str = "user"
    spread: str = "pooled"

    threshold: ClassVar[float] = 0.0
    """Above it, with is likelier than without."""

    def __post_init__(self) -> None:
        _check_level(self.level)
        if self.spread not in SPREADS:
            raise unknown_name("spread", self.spread, SPREADS)

    def score(self, seen: Evidence) -> FloatArray:
        """The log likelihood ratio of each user."""
        rows = seen.rows(self.level, np.asarray)
        return seen.users(lira(*rows, spread=self.spread), self.level, nothing=self.threshold)


@dataclass(frozen=True)
class RMIA:
    """RMIA: by how much does the target know a user better than reference models do, compared with other users?

    `level` is `"user"` or `"pair"`, where the scores of a user's pairs are averaged; `gamma` is by how much another
    must be outdone to count.
    """

    level: str = "user"
    gamma: float = 1.0

    threshold: ClassVar[float] = 0.5
    """Above it, most others are outdone."""

    def __post_init__(self) -> None:
        _check_level(self.level)
        if not 0 < self.gamma < np.inf:
            raise UsageError(f"gamma must be a positive number; got {self.gamma:g}.")

    def score(self, seen: Evidence) -> FloatArray:
        """The share of others that each user outdoes."""
        rows = seen.rows(self.level, _log_sigmoid)
        return seen.users(rmia(*rows, gamma=self.gamma), self.level, nothing=self.threshold)


ReferenceAttack = LiRA | RMIA

REFERENCED: Mapping[str, type[ReferenceAttack]] = {"lira": LiRA, "rmia": RMIA}
"""By the names that `--attacks` takes."""


def _check_level(level: str) -> None:
    if level not in LEVELS:
        raise unknown_name("level", level, LEVELS)


def _log_sigmoid(x: FloatArray) -> FloatArray:
    return np.asarray(-np.logaddexp(0, -x))
