"""Base of recommenders whose score is the product of a user vector and an item vector."""

from __future__ import annotations

from dataclasses import dataclass, field

from recveil.core.option_types import check_fields
from recveil.core.types import FloatArray, IntArray, TrainingHistory
from recveil.models.scoring import compute_dot_scores

__all__ = ["VectorModel"]


@dataclass
class VectorModel:
    """What such recommenders have in common: the vectors, the scores, and options that are checked.

    Attributes:
        user_vectors_: one row for each user of the training.
        item_vectors_: one row for each item.
        history_: how the training went; None for a model without epochs.
    """

    user_vectors_: FloatArray = field(init=False, repr=False, compare=False)
    item_vectors_: FloatArray = field(init=False, repr=False, compare=False)
    history_: TrainingHistory | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_fields(self)

    def score(self, users: IntArray, user_vectors: FloatArray | None = None) -> FloatArray:
        """Score every item; `user_vectors` replaces the vectors of these users."""
        return compute_dot_scores(self.user_vectors_, self.item_vectors_, users, user_vectors)
