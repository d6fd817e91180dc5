"""Protocols of everything that works: recommenders, defenses and attacks.

Each is a function, or a dataclass whose fields are its options. Every member that the code uses is declared here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from recveil.core.privacy_parts import PrivacyGuarantee
from recveil.core.types import (
    Attribute,
    Dataset,
    FloatArray,
    IntArray,
    ServedVectors,
    Shadow,
    Split,
    TrainingHistory,
    Watched,
)

if TYPE_CHECKING:
    import torch
    from scipy import sparse

__all__ = [
    "AttributeAttack",
    "DataDefense",
    "EmbeddingDefense",
    "FoldInRecommender",
    "ListDefense",
    "OmissionDefense",
    "MembershipAttack",
    "OwnLossRecommender",
    "Penalty",
    "PrivateRecommender",
    "Recommender",
    "SimulatedRecommender",
    "TableView",
    "TrainingDefense",
    "UtilityLoss",
    "ViewDefense",
]

UtilityLoss = Callable[["torch.Tensor"], "torch.Tensor"]
"""A differentiable loss of a table of user vectors, items and head frozen."""

TableView = Callable[[FloatArray], FloatArray]
"""Takes a table of user vectors; returns what an attacker sees of it, one row for each user."""


class Penalty(Protocol):
    """A defense at work in one training: a loss on the user vectors, refreshed before each epoch.

    Attributes:
        needs_items: the penalty reads the item vectors.
    """

    needs_items: bool

    def start_epoch(self, user_vectors: torch.Tensor) -> None:
        """Refresh the penalty from the whole table before an epoch."""

    def __call__(
        self, users: torch.Tensor, user_vectors: torch.Tensor, item_vectors: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Return the loss of these users, to be added to the recommendation loss."""

    def measure_shortfall(self, user_vectors: torch.Tensor) -> float:
        """Measure after an epoch how far the defense is from its goal: 0 at the goal, inf where it does not say.

        The epoch with the smallest shortfall is kept, the best ranked one among several; the last one if none says.
        """

    def finish(self, user_vectors: torch.Tensor) -> torch.Tensor:
        """Return the table to release."""


class TrainingDefense(Protocol):
    """A defense that acts in training: its options, from which a penalty is made for the users of one model."""

    def __call__(self, targets: Sequence[Attribute], *, epochs: int, rng: np.random.Generator) -> Penalty:
        """Make the penalty that protects these attributes in a training of so many epochs."""


class Recommender(Protocol):
    """A model. `user_vectors_` is everything user-indexed that serving needs, concatenated.

    Attributes:
        epochs: epochs of training; 1 for models solved in closed form.
        history_: how the training went; None for models that are not trained in epochs.
    """

    epochs: int
    user_vectors_: FloatArray
    item_vectors_: FloatArray
    history_: TrainingHistory | None

    def fit(self, split: Split, *, penalty: Penalty | None = None, rng: np.random.Generator) -> Self:
        """Learn from `split.train`, choosing on `split.valid`; `split.test` is not looked at."""

    def score(self, users: IntArray, user_vectors: FloatArray | None = None) -> FloatArray:
        """Score every item, (len(users), n_items); `user_vectors` replaces the rows of these users."""


@runtime_checkable
class FoldInRecommender(Protocol):
    """A recommender that can serve users that it was not trained on."""

    def fold_in(self, histories: Sequence[IntArray], *, rng: np.random.Generator) -> FloatArray:
        """Compute the user vectors of these histories by the model's own objective."""


@runtime_checkable
class OwnLossRecommender(Protocol):
    """A recommender whose scores are no products of vectors, with its training loss as a function of user vectors."""

    def make_user_loss(self, train: Dataset, *, rng: np.random.Generator) -> UtilityLoss:
        """Make the training loss of a table of user vectors, items and head frozen."""


@runtime_checkable
class PrivateRecommender(Protocol):
    """A recommender with a privacy guarantee.

    Attributes:
        guarantee_: the guarantee; None before training.
        released_items_: the items that may be named, by number; no other is recommended.
        notes_: what the operator should know of the data; it is not private itself.
    """

    guarantee_: PrivacyGuarantee | None
    released_items_: IntArray
    notes_: tuple[str, ...]

    def weigh_histories(self, seen: Dataset) -> FloatArray:
        """Return how much each interaction counts in its user's row of norm 1."""


@runtime_checkable
class SimulatedRecommender(Protocol):
    """A recommender, trained or not, whose release an attacker can simulate for given items."""

    def simulate_release(self, items: IntArray) -> Recommender:
        """Return an untrained model like this one that releases exactly these items."""


class DataDefense(Protocol):
    """A defense that changes what the model is trained on."""

    def __call__(self, train: Dataset, targets: list[str], *, rng: np.random.Generator) -> Dataset:
        """Return the data set to train on instead."""


class EmbeddingDefense(Protocol):
    """A defense that changes the user vectors after training."""

    def __call__(
        self, x: FloatArray, codes: IntArray, *, rng: np.random.Generator, utility: UtilityLoss | None = None
    ) -> FloatArray:
        """Return the table to release; `codes` is (n, n_attributes), `utility` a loss of the user vectors."""


@runtime_checkable
class ViewDefense(Protocol):
    """An embedding defense that can also hide what attackers see beside the vectors."""

    def defend_view(
        self, x: FloatArray, codes: IntArray, view: TableView | None, *, rng: np.random.Generator
    ) -> FloatArray:
        """Return the table to release where attackers also see this view of it."""


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
        """Return the lists to serve; `seen` is the user-by-item matrix of what must not be listed."""


class OmissionDefense(Protocol):
    """A defense of what lists omit."""

    def __call__(
        self,
        head: IntArray,
        seen: sparse.csr_array,
        codes: IntArray,
        *,
        k: int,
        rng: np.random.Generator,
        draw_pairs: Callable[[IntArray, IntArray], FloatArray] | None = None,
        vectors: ServedVectors | None = None,
    ) -> sparse.csr_array:
        """Return the items that lists of k omit, the seen ones among them; `head` is the top of each ranking.

        `vectors` are what the rankings come from, of the same users, where it is known.
        """


class AttributeAttack(Protocol):
    """A classifier as scikit-learn has it: any of its classifiers or pipelines is an attribute attack as it is."""

    def fit(self, x: FloatArray, y: IntArray) -> Self:
        """Learn from users whose attribute is known."""

    def predict_proba(self, x: FloatArray) -> FloatArray:
        """Return (n, K) probabilities."""


class MembershipAttack(Protocol):
    """An attack that learns on shadow worlds whose members are known and scores the users of a target."""

    @property
    def threshold(self) -> float | None:
        """Score above which a user is called a member; None to choose it on the shadow users."""

    def fit(self, shadows: Sequence[Shadow], *, reference: Watched | None = None, rng: np.random.Generator) -> Self:
        """Learn from the shadow worlds; `reference` is what is seen of the target, for transductive attacks."""

    def score(self, target: Watched) -> FloatArray:
        """Score each user of the target; the higher, the more likely a member."""
