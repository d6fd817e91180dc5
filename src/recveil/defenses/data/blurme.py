"""BlurMe: add to each profile a few items that are typical of another class (Weinsberg et al., RecSys 2012).

1. Logistic regression on the user-by-item matrix gives each item a coefficient for each class. The list of a class
   holds the items with a positive coefficient.
2. Each user gets `share` of the profile's length in new items from the list of another class: the largest coefficients
   first (`greedy`), drawn in proportion to the coefficient (`sampled`), or drawn evenly (`random`).

Departs: the coefficients are learned from users of other folds than the user's own (the paper: from all users). No
ratings are invented, since an interaction has none. With more than two classes, each user gets the list of another
class drawn at random. With several attributes, each adds its share in turn, by coefficients of the original data.

Limit: the paper's attacker learned from profiles that were not blurred. An attacker who learns from blurred profiles
sees that `greedy` adds the same few items to nearly all users of a class and to no other user, and so writes the class
into the data. On ML-1M with 10 %, logistic regression falls from 0.77 to 0.12 in the paper's setting (an attacker
inverts such a guess), and rises to 0.99 and more once it learns from blurred profiles; with `sampled` it reaches 0.52
and 0.65. So `sampled` is the default. Items added for one attribute may reveal another.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from scipy import sparse

from recveil.core.errors import UsageError, unknown_name
from recveil.core.option_types import Count, Share, check_fields
from recveil.core.traits import Choice, DefenseTraits, Range
from recveil.core.types import Attribute, Dataset, FloatArray, IntArray
from recveil.defenses.data.class_evidence import learn_evidence
from recveil.defenses.data.profiles import count_interactions, insert_items, round_share, select_attributes
from recveil.metrics.ranking import collect_seen_items

__all__ = ["BlurMe"]

METHODS = (
    DefenseTraits(
        "blurme",
        builder="BlurMe",
        place="data",
        undisclosed_users="keep their profiles as they are",
        search_space={"share": Range(0.01, 0.3, log=True), "mode": Choice(("sampled", "greedy", "random"))},
        paper="Weinsberg et al., BlurMe: Inferring and Obfuscating User Gender Based on Ratings (RecSys 2012)",
    ),
)

MODES = ("greedy", "sampled", "random")

BLOCK_SCORES = 2_000_000
"""Scores held at once."""


@dataclass(frozen=True)
class BlurMe:
    """A few items that are typical of another class, added to each profile.

    A user who has seen the whole list gets fewer items. Undisclosed users keep their profiles, and so do all users if
    there is only one class.

    Args:
        share: items to add, as a share of the profile's length.
        mode: how items are taken from the list of the other class: greedy, sampled or random.
        folds: parts of the users; each is blurred by coefficients learned from the others.
        strength: factor of `share`, from 0 to 1.
        device: not used; the defense runs on the CPU.
    """

    share: Share = 0.1
    mode: str = "sampled"
    folds: Annotated[Count, Field(ge=2)] = 5
    strength: Share = 1.0
    device: str | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        if self.mode not in MODES:
            raise unknown_name("mode of blurme", self.mode, MODES)

    def __call__(self, train: Dataset, targets: list[str], *, rng: np.random.Generator) -> Dataset:
        """Return the data with items added for each of these attributes in turn."""
        attributes = select_attributes(train, targets, numbers=False)
        if not attributes:
            raise UsageError(
                f"No target was named. Attributes in {train.name}: {', '.join(train.attributes) or 'none'}."
            )
        original = profiles = collect_seen_items(train)
        for attribute in attributes:
            count = round_share(count_interactions(train), self.share * self.strength, rng)
            profiles = profiles + self._select_additions(original, profiles, attribute, count, rng)
        user, item = (profiles - original).nonzero()
        return insert_items(train, user.astype(np.int64), item.astype(np.int64), rng=rng) if len(user) else train

    def _select_additions(
        self,
        original: sparse.csr_array,
        profiles: sparse.csr_array,
        attribute: Attribute,
        count: IntArray,
        rng: np.random.Generator,
    ) -> sparse.csr_array:
        """Select the items to add for one attribute: lists come from `original`, seen items from `profiles`."""
        evidence = learn_evidence(original, attribute.codes, len(attribute.labels), self.folds, rng)
        users, items = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)]
        for f in range(self.folds):
            blurred = np.flatnonzero((evidence.fold == f) & (count > 0) & (evidence.present[f].sum() > 1))
            other = _choose_other_class(attribute.codes[blurred], evidence.present[f], rng)
            size = max(1, BLOCK_SCORES // original.shape[1])
            for start in range(0, len(blurred), size):
                block = blurred[start : start + size]
                keys = self._compute_keys(evidence.weights[f][other[start : start + size]], rng)
                keys[profiles[block].nonzero()] = -np.inf
                row, item = _select_top_items(keys, count[block])
                users.append(block[row])
                items.append(item)
        user, item = np.concatenate(users), np.concatenate(items)
        return sparse.csr_array((np.ones(len(user), dtype=profiles.dtype), (user, item)), shape=profiles.shape)

    def _compute_keys(self, weights: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Compute keys by which items are taken, greatest first; items that are not on the list get minus infinity."""
        if self.mode == "greedy":
            keys = weights
        elif self.mode == "random":
            keys = rng.random(weights.shape)
        else:  # first arrivals of Poisson processes: a draw in proportion to the weights, without replacement
            keys = -rng.standard_exponential(weights.shape) / np.maximum(weights, 1e-300)
        return np.where(weights > 0, keys, -np.inf)


def _choose_other_class(codes: IntArray, present: NDArray[np.bool_], rng: np.random.Generator) -> IntArray:
    """Draw for each user one of the present classes other than the user's own."""
    chance = rng.random((len(codes), len(present))) * present
    chance[np.arange(len(codes)), codes] = -1.0
    other: IntArray = chance.argmax(1).astype(np.int64)
    return other


def _select_top_items(keys: FloatArray, count: IntArray) -> tuple[IntArray, IntArray]:
    """Return row and column of the `count[row]` greatest finite keys of each row."""
    width = min(int(count.max()), keys.shape[1])
    top = np.argpartition(-keys, width - 1, axis=1)[:, :width]
    value = np.take_along_axis(keys, top, axis=1)
    order = np.argsort(-value, axis=1, kind="stable")
    selected = (np.arange(width) < count[:, None]) & np.isfinite(np.take_along_axis(value, order, axis=1))
    return np.nonzero(selected)[0], np.take_along_axis(top, order, axis=1)[selected]
