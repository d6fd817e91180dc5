"""Randomized response on interactions: every bit "this user has seen this item" is flipped with a known probability.

The papers compare with "LDP-SH", whose reference could not be found. This is our reading of it: local differential
privacy for each user-item bit, by randomized response (Warner 1965).

A bit that is 1 stays 1 with probability `keep`; a bit that is 0 becomes 1 with probability keep * exp(-epsilon). Then
no answer is more than exp(epsilon) times as likely under one truth as under the other, and for the answer 1 the ratio
is exactly that. With a large catalog nearly all bits are 0, so most of the noise is added items. Two options keep a
profile sparse and leave the guarantee exact: a large epsilon, and a smaller `keep`, which adds fewer items and loses
more. There is no cap on added items: one that depends on the length of the profile would reveal it, and epsilon would
no longer hold.

Limit: epsilon is for one bit. Profiles that differ in m items are protected by m * epsilon only, so a taste shared by
many items, as an attribute is, is hardly protected. The guarantee covers which items were seen, not when: kept
interactions keep their time, and an added item takes the time of one of the user's own interactions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from recveil.core.errors import UsageError
from recveil.core.option_types import NonNegativeFloat, PositiveFloat, Share, check_fields
from recveil.core.traits import DefenseTraits, Range
from recveil.core.types import Dataset, IntArray
from recveil.defenses.data.profiles import insert_items, select_attributes

__all__ = ["LDP", "compute_epsilon"]

METHODS = (
    DefenseTraits(
        "ldp",
        builder="LDP",
        guarantee="epsilon for each bit of who has seen which item",
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

    All users are treated alike, whatever their attributes, and a user may be left with nothing.

    Args:
        epsilon: privacy budget of one bit at full strength.
        keep: probability that an interaction stays; by default both flips are equally likely, exp(epsilon) /
            (1 + exp(epsilon)).
        strength: share of the bits, drawn at random, that are randomized at all; `epsilon_per_bit` is the budget then.
        device: not used; the defense runs on the CPU.
    """

    epsilon: NonNegativeFloat = 4.0
    keep: PositiveFloat | None = None
    strength: Share = 1.0
    device: str | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        largest = self._compute_even_keep()
        if self.keep is not None and self.keep > largest:
            raise UsageError(
                f"keep must lie above 0 and, at epsilon {self.epsilon:g}, be at most {largest:.4g}, where both flips "
                f"are equally likely; got {self.keep:g}."
            )

    @property
    def flip_probabilities(self) -> tuple[float, float]:
        """Probability that an interaction stays, and that one is added where there was none."""
        keep = self._compute_even_keep() if self.keep is None else self.keep
        return 1 - self.strength * (1 - keep), self.strength * keep * math.exp(-self.epsilon)

    @property
    def epsilon_per_bit(self) -> float:
        """Privacy budget that the two probabilities give: `epsilon` at full strength, more below it, infinite at 0."""
        return compute_epsilon(*self.flip_probabilities)

    def __call__(self, train: Dataset, targets: list[str], *, rng: np.random.Generator) -> Dataset:
        """Return the randomized data; the targets must exist and are not used."""
        select_attributes(train, targets)
        if not self.strength:
            return train
        stays, added = self.flip_probabilities
        keep = rng.random(len(train)) < stays
        own = np.unique(train.user * train.n_items + train.item)
        zeros = _draw_indices(train.n_users * train.n_items - len(own), added, rng)
        # The z-th pair that is 0 lies as many places further as there are pairs that are 1 before it.
        pair = zeros + np.searchsorted(own - np.arange(len(own)), zeros, side="right")
        return insert_items(train, pair // train.n_items, pair % train.n_items, rng=rng, keep=keep)

    def _compute_even_keep(self) -> float:
        return 1 / (1 + math.exp(-self.epsilon))


def compute_epsilon(stays: float, added: float) -> float:
    """Compute the epsilon of a bit that stays 1, and that becomes 1, with these probabilities."""
    if stays == added:
        return 0.0
    if min(stays, added, 1 - stays, 1 - added) <= 0:
        return math.inf
    return max(abs(math.log(stays / added)), abs(math.log((1 - added) / (1 - stays))))


def _draw_indices(n: int, probability: float, rng: np.random.Generator) -> IntArray:
    """Draw each of the indices below n independently with this probability; the gaps between them are geometric."""
    drawn = [np.array([-1], dtype=np.int64)]
    while probability > 0 and drawn[-1][-1] < n:
        expected = probability * (n - 1 - drawn[-1][-1])
        gaps = rng.geometric(probability, size=int(expected + 4 * math.sqrt(expected)) + 1)
        drawn.append(drawn[-1][-1] + np.cumsum(gaps))
    indices = np.concatenate(drawn)[1:]
    return indices[indices < n]
