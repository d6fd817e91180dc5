"""BlurMe: add to each profile a few items that speak for another class (Weinsberg et al., RecSys 2012).

1. Logistic regression on the matrix of who touched what says how strongly each item speaks for each class. The list of
   a class are the items that speak for it.
2. Each user gets `share` of the profile's length in items not yet touched, from the list of the other class: the
   strongest first (`greedy`), drawn in proportion to the coefficient (`sampled`), or drawn evenly (`random`).

Departs: the coefficients are learned from users other than the ones being blurred (the paper: from all). No ratings
are made up: an interaction is one. Of more than two classes, each user gets the list of another one, drawn at random.
Of several attributes, each adds its share in turn, by coefficients of the data as they were.

Limit: the paper's attacker learned from profiles that were not blurred. One who learns from blurred ones sees that
`greedy` adds the same few items to nearly all users of a class and to nobody else, and so writes the class into the
data: on ML-1M with 10 %, logistic regression falls from 0.77 to 0.12 (a guess to be turned round) in the paper's
setting, and rises to 0.99 and more once it learns from blurred profiles; with `sampled` it finds 0.52 and 0.65. So
`sampled` is the default. Items added for one attribute may speak of another.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from recveil.core.errors import UsageError, unknown_name
from recveil.core.traits import Choice, DefenseTraits, Range
from recveil.core.types import Attribute, Dataset, FloatArray, IntArray
from recveil.defenses.data.class_evidence import telling
from recveil.defenses.data.profiles import check_share, lengths, named, some_of, with_items
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
BLOCK = 2_000_000  # scores held at once


@dataclass(frozen=True)
class BlurMe:
    """Adds to each profile a few items that speak for another class.

    `share` is how many, as a share of the profile's length, and `strength` multiplies it; `mode` is how they are taken
    from the list of the other class, and `folds` in how many parts the users are dealt, each blurred by what the others
    teach. Who has touched the whole list gets fewer. Users of unknown class stay as they are, and so does everybody
    where there is only one class. `device` is not used: this runs on the CPU.
    """

    share: float = 0.1
    mode: str = "sampled"
    folds: int = 5
    strength: float = 1.0
    device: str | None = None

    def __post_init__(self) -> None:
        check_share("share", self.share)
        check_share("strength", self.strength)
        if self.mode not in MODES:
            raise unknown_name("mode of blurme", self.mode, MODES)
        if self.folds < 2:
            raise UsageError(f"folds must be 2 or more, so that each is blurred by the others; got {self.folds}.")

    def __call__(self, train: Dataset, targets: list[str], *, rng: np.random.Generator) -> Dataset:
        """The data with the items added, for these attributes one after the other."""
        secrets = named(train, targets, numbers=False)
        if not secrets:
            raise UsageError(
                f"No target was named. Attributes in {train.name}: {', '.join(train.attributes) or 'none'}."
            )
        seen = now = collect_seen_items(train)
        for secret in secrets:
            count = some_of(lengths(train), self.share * self.strength, rng)
            now = now + self._added(seen, now, secret, count, rng)
        user, item = (now - seen).nonzero()
        return with_items(train, user.astype(np.int64), item.astype(np.int64), rng=rng) if len(user) else train

    def _added(
        self,
        seen: sparse.csr_array,
        now: sparse.csr_array,
        secret: Attribute,
        count: IntArray,
        rng: np.random.Generator,
    ) -> sparse.csr_array:
        """What to add for one attribute, where the lists come from `seen` and the profiles are `now`."""
        found = telling(seen, secret.codes, len(secret.labels), self.folds, rng)
        users, items = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)]
        for f in range(self.folds):
            blurred = np.flatnonzero((found.fold == f) & (count > 0) & (found.there[f].sum() > 1))
            aim = _another(secret.codes[blurred], found.there[f], rng)
            size = max(1, BLOCK // seen.shape[1])
            for at in range(0, len(blurred), size):
                block = blurred[at : at + size]
                key = self._keys(found.weights[f][aim[at : at + size]], rng)
                key[now[block].nonzero()] = -np.inf
                row, item = _first(key, count[block])
                users.append(block[row])
                items.append(item)
        user, item = np.concatenate(users), np.concatenate(items)
        return sparse.csr_array((np.ones(len(user), dtype=now.dtype), (user, item)), shape=now.shape)

    def _keys(self, weights: FloatArray, rng: np.random.Generator) -> FloatArray:
        """The greatest comes first; what is not on the list comes never."""
        if self.mode == "greedy":
            key = weights
        elif self.mode == "random":
            key = rng.random(weights.shape)
        else:  # the first arrivals, where each item comes at its own rate: a draw in proportion without replacement
            key = -rng.standard_exponential(weights.shape) / np.maximum(weights, 1e-300)
        return np.where(weights > 0, key, -np.inf)


def _another(codes: IntArray, there: FloatArray, rng: np.random.Generator) -> IntArray:
    """For each user one of the classes that are there, and not the user's own."""
    chance = rng.random((len(codes), len(there))) * there
    chance[np.arange(len(codes)), codes] = -1.0
    aim: IntArray = chance.argmax(1).astype(np.int64)
    return aim


def _first(key: FloatArray, count: IntArray) -> tuple[IntArray, IntArray]:
    """Row and column of the `count[row]` greatest finite keys of each row."""
    most = min(int(count.max()), key.shape[1])
    top = np.argpartition(-key, most - 1, axis=1)[:, :most]
    value = np.take_along_axis(key, top, axis=1)
    order = np.argsort(-value, axis=1, kind="stable")
    wanted = (np.arange(most) < count[:, None]) & np.isfinite(np.take_along_axis(value, order, axis=1))
    return np.nonzero(wanted)[0], np.take_along_axis(top, order, axis=1)[wanted]
