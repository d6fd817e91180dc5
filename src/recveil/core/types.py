"""Types that flow between the rooms: frozen dataclasses of arrays.

Data flows one way:

    raw files -> Dataset -> Split -> (training) -> user vectors -> Release -> Scores -> results -> report

An attack receives a `Release`, never a model: the threat model is a type.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Attribute",
    "Dataset",
    "Estimate",
    "FloatArray",
    "IntArray",
    "Record",
    "Release",
    "Scores",
    "Shadow",
    "Split",
    "TrainingHistory",
    "UNKNOWN",
    "Watched",
]

FloatArray = NDArray[np.floating[Any]]
IntArray = NDArray[np.int64]

UNKNOWN = -1
"""The code of a user who did not disclose an attribute."""


@dataclass(frozen=True, eq=False)
class Attribute:
    """What is known of each user: a class (`codes` indexes `labels`, -1 = unknown) or a number (`values`, NaN)."""

    name: str
    codes: IntArray
    labels: tuple[str, ...]
    values: FloatArray | None = None

    @property
    def continuous(self) -> bool:
        """Whether the attribute is a number rather than a class."""
        return self.values is not None

    @property
    def known(self) -> NDArray[np.bool_]:
        """Which users disclosed it."""
        return self.codes != UNKNOWN if self.values is None else ~np.isnan(self.values)

    @property
    def counts(self) -> IntArray:
        """How many users each class has."""
        return np.bincount(self.codes[self.codes != UNKNOWN], minlength=len(self.labels)).astype(np.int64)

    def take(self, users: IntArray) -> Attribute:
        """The same attribute for these users, in this order."""
        values = None if self.values is None else self.values[users]
        return replace(self, codes=self.codes[users], values=values)


@dataclass(frozen=True, eq=False)
class Dataset:
    """Who touched what, and when. Ids are 0..n-1; the raw ids are kept beside them, by position."""

    name: str
    user: IntArray
    item: IntArray
    time: IntArray | FloatArray | None
    user_ids: NDArray[Any]
    item_ids: NDArray[Any]
    attributes: Mapping[str, Attribute] = field(default_factory=dict)

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

    def take(self, rows: NDArray[Any]) -> Dataset:
        """The same id space with only these interactions (a mask or row numbers)."""
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
        went_on: whether a penalty that waited for the trained model was kept; None where none waited.
    """

    loss: list[float] = field(default_factory=list)
    valid: list[float] = field(default_factory=list)
    best: int = 0
    stopped: str | None = None
    went_on: bool | None = None


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
class Watched:
    """What an outsider sees of some users of a recommender: what they touched, and the lists they are served.

    `histories[u]` are the items of user u, oldest first; `lists[u]` what was recommended, best first (-1 = no more).
    `item_vectors` is what the outsider knows of the items from elsewhere. Who is a member has no place here.
    """

    histories: Sequence[IntArray]
    lists: IntArray
    item_vectors: FloatArray | None = None


@dataclass(frozen=True, eq=False)
class Shadow:
    """A world the attacker made: what is seen of its users, and who of them the model was trained on."""

    watched: Watched
    member: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Scores:
    """What an attack believes of users it never trained on: `score` is (n, K), or (n,) for membership."""

    users: IntArray
    truth: NDArray[Any]
    score: FloatArray


@dataclass(frozen=True)
class Estimate:
    """A number with its 95 % interval and how many users stand behind it."""

    value: float
    low: float
    high: float
    n: int

    def to_dict(self) -> dict[str, float | int | None]:
        """For JSON; what is not a number becomes null."""
        return {k: (None if isinstance(v, float) and not math.isfinite(v) else v) for k, v in asdict(self).items()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Back from JSON."""
        number = {k: math.nan if data[k] is None else float(data[k]) for k in ("value", "low", "high")}
        return cls(**number, n=int(data["n"]))


@dataclass(frozen=True)
class Record:
    """The one row type: on disk, in the report, on the page. Same seed, same record; timings are kept elsewhere."""

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
        """For JSON."""
        return {**asdict(self), "estimate": self.estimate.to_dict()}
