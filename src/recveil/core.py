"""The nouns and the protocols of recveil.

What flows is a frozen dataclass of arrays; what works is a function, or a dataclass whose fields are its
hyper-parameters. Data flows one way:

    raw files -> Dataset -> Split -> (training) -> user vectors -> Release -> Scores -> Records -> report

An attack receives a `Release`, never a model: the threat model is a type.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch
    from scipy import sparse

__all__ = [
    "Attribute",
    "AttributeAttack",
    "DataDefense",
    "Dataset",
    "EmbeddingDefense",
    "Estimate",
    "FloatArray",
    "IntArray",
    "ListDefense",
    "MembershipAttack",
    "Penalty",
    "Recommender",
    "Record",
    "Release",
    "Scores",
    "Shadow",
    "Split",
    "TrainingDefense",
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


class Penalty(Protocol):
    """A defense that acts in training: a loss on the user vectors, refreshed before each pass.

    It may also say: `wants_items` (give me the item vectors), `every` (ask me in one step of so many), `settled` (what
    I finish is defended, whatever pass is kept from now on), `late` (train without me first, then tell me by `begin`
    that I have so many passes).
    """

    def epoch(self, user_vectors: torch.Tensor) -> None:
        """Called with the whole table before each pass over the data."""

    def __call__(
        self, users: torch.Tensor, user_vectors: torch.Tensor, item_vectors: torch.Tensor | None = None
    ) -> torch.Tensor:
        """The loss of these users, to be added to the recommendation loss."""

    def finish(self, user_vectors: torch.Tensor) -> torch.Tensor:
        """The table to release."""


class TrainingDefense(Protocol):
    """A defense that acts in training: its options, from which a penalty is made for the users of one model."""

    def __call__(self, targets: Sequence[Attribute], *, epochs: int, rng: np.random.Generator) -> Penalty:
        """The penalty that protects these attributes in a training of so many passes."""


class Recommender(Protocol):
    """A model. `user_vectors_` is everything user-indexed that serving needs, concatenated."""

    user_vectors_: FloatArray
    item_vectors_: FloatArray

    def fit(self, split: Split, *, penalty: Penalty | None = None, rng: np.random.Generator) -> Self:
        """Learn from `split.train`, choosing on `split.valid`; `split.test` is not looked at."""

    def score(self, users: IntArray, user_vectors: FloatArray | None = None) -> FloatArray:
        """A score for every item, (len(users), n_items); `user_vectors` replaces the rows of these users."""


class DataDefense(Protocol):
    """A defense that changes what the model is trained on."""

    def __call__(self, train: Dataset, targets: list[str], *, rng: np.random.Generator) -> Dataset:
        """The data set to train on instead."""


class EmbeddingDefense(Protocol):
    """A defense that changes the user vectors after training."""

    def __call__(
        self,
        x: FloatArray,
        codes: IntArray,
        *,
        rng: np.random.Generator,
        utility: Callable[[torch.Tensor], torch.Tensor] | None = None,
    ) -> FloatArray:
        """The table to release; `codes` is (n, n_attributes), `utility` a differentiable loss of the user vectors."""


class ListDefense(Protocol):
    """A defense that changes the lists that are served."""

    def __call__(
        self,
        lists: IntArray,
        member: NDArray[np.bool_],
        popularity: FloatArray,
        *,
        rng: np.random.Generator,
        seen: sparse.csr_array | None = None,
    ) -> IntArray:
        """The lists to serve; `seen` is the user-by-item matrix of what must not be listed."""


class AttributeAttack(Protocol):
    """Any scikit-learn classifier."""

    def fit(self, x: FloatArray, y: IntArray) -> Self:
        """Learn from users whose attribute is known."""

    def predict_proba(self, x: FloatArray) -> FloatArray:
        """(n, K) probabilities."""


class MembershipAttack(Protocol):
    """Learns on shadow worlds whose members are known, and judges the users of a target it knows no members of."""

    def fit(self, shadows: Sequence[Shadow], *, reference: Watched | None = None, rng: np.random.Generator) -> Self:
        """Learn from the shadow worlds; `reference` is what is seen of the target, for transductive attacks."""

    def score(self, target: Watched) -> FloatArray:
        """The higher, the more likely a member: one number for each user."""
