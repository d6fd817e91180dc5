"""Types that flow between the rooms: frozen dataclasses of arrays.

Data flows one way:

    raw files -> Dataset -> Split -> (training) -> user vectors -> Release -> Scores -> results -> report

An attack receives a `Release`, never a model: the threat model is a type.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Attribute",
    "BoolArray",
    "Dataset",
    "Estimate",
    "FloatArray",
    "IntArray",
    "MIN_USERS_SHOWN",
    "Record",
    "ReferenceSignals",
    "Release",
    "Scores",
    "ServedVectors",
    "Shadow",
    "Split",
    "TrainingHistory",
    "UNDISCLOSED",
    "Watched",
]

FloatArray = NDArray[np.floating[Any]]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

UNDISCLOSED = -1
"""Code of a user who did not disclose an attribute."""

MIN_USERS_SHOWN = 10
"""A group of fewer users is not described: its numbers would be those of people one can name."""


@dataclass(frozen=True, eq=False)
class Attribute:
    """An attribute of each user: a class (`codes` indexes `labels`, -1 = undisclosed) or a number (`values`, NaN)."""

    name: str
    codes: IntArray
    labels: tuple[str, ...]
    values: FloatArray | None = None

    @property
    def is_numeric(self) -> bool:
        """Whether the attribute is a number rather than a class."""
        return self.values is not None

    @property
    def known(self) -> NDArray[np.bool_]:
        """Mask of the users who disclosed it."""
        return self.codes != UNDISCLOSED if self.values is None else ~np.isnan(self.values)

    @property
    def counts(self) -> IntArray:
        """Users of each class."""
        return np.bincount(self.codes[self.codes != UNDISCLOSED], minlength=len(self.labels)).astype(np.int64)

    def __repr__(self) -> str:
        known = int(self.known.sum())
        kind = "a number" if self.is_numeric else f"{len(self.labels)} classes"
        return f"Attribute({self.name!r}: {kind}, {known:,} of {len(self.codes):,} users disclosed it)"

    def take(self, users: IntArray) -> Attribute:
        """Return the attribute of these users, in this order."""
        values = None if self.values is None else self.values[users]
        return replace(self, codes=self.codes[users], values=values)


@dataclass(frozen=True, eq=False)
class Dataset:
    """Interactions of users with items. Ids are 0..n-1; the raw ids are kept beside them, by position.

    `notes` say which labels and columns of the users were left out when the data set was read.
    """

    name: str
    user: IntArray
    item: IntArray
    time: IntArray | FloatArray | None
    user_ids: NDArray[Any]
    item_ids: NDArray[Any]
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def n_users(self) -> int:
        """Users in the id space, with or without interactions."""
        return len(self.user_ids)

    @property
    def n_items(self) -> int:
        """Items in the id space, with or without interactions."""
        return len(self.item_ids)

    def __len__(self) -> int:
        return len(self.user)

    def __repr__(self) -> str:
        size = f"{self.n_users:,} users, {self.n_items:,} items, {len(self):,} interactions"
        return f"Dataset({self.name!r}: {size}; attributes: {', '.join(self.attributes) or 'none'})"

    def take(self, rows: NDArray[Any]) -> Dataset:
        """Return the data set with only these interactions (a mask or row numbers), in the same id space."""
        time = None if self.time is None else self.time[rows]
        return replace(self, user=self.user[rows], item=self.item[rows], time=time)


@dataclass(frozen=True, eq=False)
class Split:
    """Three parts of one data set in one id space."""

    train: Dataset
    valid: Dataset
    test: Dataset


@dataclass
class TrainingHistory:
    """How a training in epochs went.

    Attributes:
        loss: mean loss of each epoch.
        valid: NDCG@10 of the validation items after each epoch in which they were ranked.
        best: the epoch whose model was kept, from 0.
        stopped: the sentence that says what broke, where training ended because a number was no longer finite.
    """

    loss: list[float] = field(default_factory=list)
    valid: list[float] = field(default_factory=list)
    best: int = 0
    stopped: str | None = None


@dataclass(frozen=True, eq=False)
class ServedVectors:
    """User vectors that rankings come from, and scores of the items that rank first.

    Attributes:
        cloaked: (n, d) vectors that users are served from.
        score_head: scores of the items of each user's head, (n, depth), if users had the vectors that it takes.
        undefended: (n, d) vectors before the cloak; None where they are not known.
    """

    cloaked: FloatArray
    score_head: Callable[[FloatArray], FloatArray] = field(repr=False)
    undefended: FloatArray | None = None


@dataclass(frozen=True, eq=False)
class Release:
    """What a platform exposes, and all that an attack may look at; any part may be missing.

    `lists[u]` are the items recommended to user u, best first (-1 = no more). `score(users, user_vectors=None)`
    is the scoring function where scores are exposed.
    """

    user_vectors: FloatArray | None = None
    item_vectors: FloatArray | None = None
    lists: IntArray | None = None
    score: Callable[..., FloatArray] | None = None


@dataclass(frozen=True, eq=False)
class ReferenceSignals:
    """Log-odds that reference models and the target give to pairs of a user and an item of the user's history.

    Attributes:
        user: the user of each pair, in order; users without a pair are possible.
        reference: signals of the reference models, (n_pairs, n_models).
        target: signals of the target, (n_pairs,).
        trained_on: whether each model was trained on each user, (n_users, n_models).
        scored_users: the users to score; all others are there to be compared with.
        weight: how much each pair counts in the sum over a user's pairs; None takes their mean.
    """

    user: IntArray
    reference: FloatArray
    target: FloatArray
    trained_on: BoolArray
    scored_users: IntArray
    weight: FloatArray | None = None


@dataclass(frozen=True, eq=False)
class Watched:
    """What an outsider sees of some users of a recommender: their histories and the lists they are served.

    `histories[u]` are the items of user u, oldest first; `lists[u]` what was recommended, best first (-1 = no more).
    `item_vectors` is what the outsider knows of the items from elsewhere. `reference_signals` are the scores of a
    stronger outsider, who may ask the target for them and trains models like it. Membership has no place here.
    """

    histories: Sequence[IntArray]
    lists: IntArray
    item_vectors: FloatArray | None = None
    reference_signals: ReferenceSignals | None = None

    def take(self, users: IntArray) -> Watched:
        """Return the same for these users, in this order."""
        signals = self.reference_signals
        if signals is not None:
            signals = replace(signals, scored_users=signals.scored_users[users])
        histories = [self.histories[user] for user in users]
        return replace(self, histories=histories, lists=self.lists[users], reference_signals=signals)


@dataclass(frozen=True, eq=False)
class Shadow:
    """A world the attacker made: what is seen of its users, and which of them the model was trained on."""

    watched: Watched
    member: BoolArray


@dataclass(frozen=True, eq=False)
class Scores:
    """Scores of an attack for users it never trained on: `score` is (n, K), or (n,) for membership."""

    users: IntArray
    truth: NDArray[Any]
    score: FloatArray


@dataclass(frozen=True)
class Estimate:
    """A number with its 95 % interval and the number of users behind it."""

    value: float
    low: float
    high: float
    n: int

    def to_dict(self) -> dict[str, float | int | None]:
        """Return a dict for JSON; what is not finite becomes None."""
        return {k: (None if isinstance(v, float) and not math.isfinite(v) else v) for k, v in asdict(self).items()}

    @classmethod
    def from_dict(cls, data: object) -> Self:
        """Return the estimate of such a dict.

        Raises:
            ValueError: the dict holds something else.
        """
        content: Mapping[str, Any] = data if isinstance(data, Mapping) else {}
        values = {key: content.get(key, "") for key in ("value", "low", "high", "n")}
        is_plain = all(value is None or isinstance(value, Real) for value in values.values())
        if not is_plain or bool in map(type, values.values()) or not isinstance(values["n"], Integral):
            raise ValueError("an estimate needs the numbers value, low and high, or null, and a whole number n")
        n = int(values.pop("n"))
        return cls(**{key: math.nan if value is None else float(value) for key, value in values.items()}, n=n)


@dataclass(frozen=True)
class Record:
    """One measured number of a study. The same seed gives the same record; timings are kept elsewhere."""

    dataset: str
    model: str
    defense: str
    attack: str
    target: str
    seed: int
    metric: str
    estimate: Estimate
    cell: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return a dict for JSON."""
        return {**asdict(self), "estimate": self.estimate.to_dict()}
