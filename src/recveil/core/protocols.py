"""Protocols of everything that works: recommenders, defenses and attacks.

Each is a function, or a dataclass whose fields are its options.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from recveil.core.types import Attribute, Dataset, FloatArray, IntArray, Shadow, Split, Watched

if TYPE_CHECKING:
    import torch
    from scipy import sparse

__all__ = [
    "AttributeAttack",
    "DataDefense",
    "EmbeddingDefense",
    "ListDefense",
    "MembershipAttack",
    "Penalty",
    "Recommender",
    "TrainingDefense",
]


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
