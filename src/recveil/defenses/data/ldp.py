"""Randomized response on interactions: every bit "this user touched this item" is told with a known chance of a lie.

The papers compare with "LDP-SH", whose reference could not be found. This is our reading of it: local differential
privacy for each user-item bit, by randomized response (Warner 1965).

A bit that is 1 stays 1 with probability `keep`; one that is 0 becomes 1 with probability keep * exp(-epsilon). Then no
answer is more than exp(epsilon) times as likely under one truth as under the other, and for the answer 1 it is exactly
that. With a large catalog nearly all bits are 0, so most of the noise is items added. Two knobs keep a profile sparse
and leave the guarantee exact: a large epsilon, and a smaller `keep`, which adds less and loses more. There is no cap on
what is added: one that goes by the length of the profile would tell of it, and epsilon would no longer hold.

Limit: epsilon is for one bit. Profiles that differ in m items are protected by m * epsilon only, so a taste shared by
many items, as an attribute is, hardly at all. It is about which items, not about when: what is kept keeps its time,
and what is added has the time of something the user did touch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from recveil.core.errors import UsageError
from recveil.core.traits import DefenseTraits, Range
from recveil.core.types import Dataset, IntArray
from recveil.defenses.data.profiles import check_share, named, with_items

__all__ = ["LDP", "epsilon_of"]

METHODS = (
    DefenseTraits(
        "ldp",
        builder="LDP",
        place="data",
        needs_labels=False,
        undisclosed_users="are treated like all others",
        search_space={"epsilon": Range(1.0, 8.0)},
        paper="Warner, Randomized Response (Journal of the American Statistical Association, 1965)",
    ),
)


@dataclass(frozen=True)
class LDP:
    """Randomized response on interactions, with a stated epsilon for each user-item bit.

    `keep` is the chance that an interaction stays; without it lies are equally likely both ways, exp(epsilon) /
    (1 + exp(epsilon)). With `strength` below 1 only that share of the bits, drawn at random, is asked at all; what
    epsilon then is, `epsilon_per_bit` says. It needs no attribute: everybody is treated alike, of known and of unknown
    class, and a user may be left with nothing. `device` is not used: this runs on the CPU.
    """

    epsilon: float = 4.0
    keep: float | None = None
    strength: float = 1.0
    device: str | None = None

    def __post_init__(self) -> None:
        check_share("strength", self.strength)
        if not 0 <= self.epsilon < np.inf:
            raise UsageError(f"epsilon must be zero (nothing can be told) or more, and finite; got {self.epsilon:g}.")
        if self.keep is not None and not 0 < self.keep <= self._even():
            raise UsageError(
                f"keep must lie above 0 and, at epsilon {self.epsilon:g}, be at most {self._even():.4g}: who keeps "
                f"more must add more than equal lies both ways would; got {self.keep:g}."
            )

    @property
    def flips(self) -> tuple[float, float]:
        """The chance that an interaction stays, and the chance that one is added where there was none."""
        keep = self._even() if self.keep is None else self.keep
        return 1 - self.strength * (1 - keep), self.strength * keep * math.exp(-self.epsilon)

    @property
    def epsilon_per_bit(self) -> float:
        """What follows exactly from the two chances: `epsilon` at full strength, more below it, infinite at 0."""
        return epsilon_of(*self.flips)

    def __call__(self, train: Dataset, targets: list[str], *, rng: np.random.Generator) -> Dataset:
        """The data as told; the targets must exist and are not used."""
        named(train, targets)
        if not self.strength:
            return train
        stays, added = self.flips
        keep = rng.random(len(train)) < stays
        own = np.unique(train.user * train.n_items + train.item)
        zeros = _chosen(train.n_users * train.n_items - len(own), added, rng)
        # The z-th pair that is 0 lies as many places further as there are pairs that are 1 before it.
        pair = zeros + np.searchsorted(own - np.arange(len(own)), zeros, side="right")
        return with_items(train, pair // train.n_items, pair % train.n_items, rng=rng, keep=keep)

    def _even(self) -> float:
        return 1 / (1 + math.exp(-self.epsilon))


def epsilon_of(stays: float, added: float) -> float:
    """The epsilon of one bit that stays 1 and that becomes 1 with these chances."""
    if stays == added:
        return 0.0
    if min(stays, added, 1 - stays, 1 - added) <= 0:
        return math.inf
    return max(abs(math.log(stays / added)), abs(math.log((1 - added) / (1 - stays))))


def _chosen(n: int, chance: float, rng: np.random.Generator) -> IntArray:
    """Which of n things are chosen, each by itself with this chance: the gaps between them are geometric."""
    found = [np.array([-1], dtype=np.int64)]
    while chance > 0 and found[-1][-1] < n:
        left = chance * (n - 1 - found[-1][-1])
        gaps = rng.geometric(chance, size=int(left + 4 * math.sqrt(left)) + 1)
        found.append(found[-1][-1] + np.cumsum(gaps))
    chosen = np.concatenate(found)[1:]
    return chosen[chosen < n]
