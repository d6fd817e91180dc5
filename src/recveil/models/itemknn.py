"""ItemKNN: items are scored by their similarity to the seen items of the user; nothing is learned about users."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np
import torch
from scipy import sparse

from recveil.core.errors import UsageError
from recveil.core.option_types import Count, check_fields
from recveil.core.progress import track_progress
from recveil.core.protocols import Penalty
from recveil.core.traits import ModelTraits
from recveil.core.types import Dataset, FloatArray, IntArray, Split, TrainingHistory
from recveil.metrics.ranking import collect_seen_items
from recveil.models.sampling import wrap_histories

__all__ = ["ItemKNN"]

METHODS = (
    ModelTraits(
        "itemknn", builder="ItemKNN", paper="Sarwar et al., WWW 2001", dot_product=False, has_user_vectors=False
    ),
)

_BLOCK_SIMILARITIES = 2**24  # similarities held at a time


@dataclass
class ItemKNN:
    """Item-based nearest neighbors by cosine similarity.

    Sarwar et al., Item-based Collaborative Filtering Recommendation Algorithms, WWW 2001; the "ItemBase" of DL-MIA (KDD
    2022). The score of an item is the sum of its similarities to the seen items among its `neighbors` nearest items.
    The similarity of two items is the number of users they share over the geometric mean of their numbers of users.

    The model has no vectors: `user_vectors_` and `item_vectors_` have no columns, and a platform releases only lists.
    Serving needs the history of a user, a row of 0 and 1 per item: `score` takes such rows in the place of vectors, and
    `fold_in` makes them.
    """

    neighbors: Count = 20
    device: str | None = None

    epochs = 1  # no field: it is neither an option nor learned

    user_vectors_: FloatArray = field(init=False, repr=False, compare=False)
    item_vectors_: FloatArray = field(init=False, repr=False, compare=False)
    like_: FloatArray = field(init=False, repr=False, compare=False)
    neighbor_: IntArray = field(init=False, repr=False, compare=False)
    seen_start_: IntArray = field(init=False, repr=False, compare=False)
    seen_item_: IntArray = field(init=False, repr=False, compare=False)
    history_: TrainingHistory | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_fields(self)

    def fit(self, split: Split, *, penalty: Penalty | None = None, rng: np.random.Generator) -> Self:
        """Compute the similarities of items in the training part; nothing is random."""
        if penalty is not None:
            raise UsageError(
                "ItemKNN learns no user vectors and takes no in-training defense. "
                "Defend its data or its lists, or train a model that learns by gradients."
            )
        matrix = collect_seen_items(split.train)
        n_users, n_items = matrix.shape
        self.user_vectors_ = np.zeros((n_users, 0), dtype=np.float32)
        self.item_vectors_ = np.zeros((n_items, 0), dtype=np.float32)
        self.seen_start_, self.seen_item_ = matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64)
        self.neighbor_, self.like_ = _find_neighbors(matrix, self.neighbors)
        return self

    def score(self, users: IntArray, user_vectors: FloatArray | None = None) -> FloatArray:
        """Score every item; `user_vectors` replaces the histories of these users.

        A row of `user_vectors` is a history as 0 or 1 per item. Rows without columns, as in `user_vectors_`, stand for
        the own histories.
        """
        users = np.asarray(users, dtype=np.int64)
        n_items = len(self.item_vectors_)
        if user_vectors is None or user_vectors.shape == (len(users), 0):
            rows = self._build_history_matrix()[users]
        elif user_vectors.shape == (len(users), n_items):
            rows = sparse.csr_array(np.ascontiguousarray(user_vectors, dtype=np.float32))
        else:
            raise UsageError(
                f"user_vectors has shape {user_vectors.shape}; for {len(users)} users of this model it must be "
                f"{(len(users), n_items)}, a history as 0 or 1 per item, or {(len(users), 0)} for their own."
            )
        return np.asarray((rows @ self._build_weight_matrix()).toarray(), dtype=np.float32)

    def fold_in(self, histories: Sequence[IntArray], *, rng: np.random.Generator | None = None) -> FloatArray:
        """Make the rows that `score` takes for new histories.

        They hold 0 or 1 per item. Nothing is random.
        """
        data: Dataset = wrap_histories(histories, len(self.item_vectors_))
        return np.asarray((collect_seen_items(data) > 0).toarray(), dtype=np.float32)

    def _build_history_matrix(self) -> sparse.csr_array:
        ones = np.ones(len(self.seen_item_), dtype=np.float32)
        shape = (len(self.user_vectors_), len(self.item_vectors_))
        return _check_indices(sparse.csr_array((ones, self.seen_item_, self.seen_start_), shape=shape))

    def _build_weight_matrix(self) -> sparse.csr_array:
        """Build the matrix of similarities, seen item by scored item."""
        n_items, k = self.neighbor_.shape
        start = np.arange(n_items + 1) * k
        to_scored = sparse.csr_array((self.like_.ravel(), self.neighbor_.ravel(), start), shape=(n_items, n_items))
        return sparse.csr_array(_check_indices(to_scored).T)


def _check_indices(matrix: sparse.csr_array) -> sparse.csr_array:
    """Return the matrix; an index out of range is a ValueError, before SciPy reads past the end."""
    matrix.check_format(full_check=True)
    return matrix


def _find_neighbors(matrix: sparse.csr_array, neighbors: int) -> tuple[IntArray, FloatArray]:
    """Find the most similar items of each item, nearest first, in blocks."""
    n_items = matrix.shape[1]
    count = np.asarray((matrix > 0).sum(0), dtype=np.float64)
    scale = 1.0 / np.sqrt(np.maximum(count, 1.0))
    unit = sparse.csr_array(matrix > 0).astype(np.float64).multiply(scale[None, :])
    by_user, by_item = sparse.csr_array(unit), sparse.csr_array(unit.T)
    k = min(neighbors, max(n_items - 1, 1))
    nearest, similarity = np.zeros((n_items, k), dtype=np.int64), np.zeros((n_items, k), dtype=np.float32)
    size = max(1, _BLOCK_SIMILARITIES // max(n_items, 1))
    starts = range(0, n_items, size)
    for start in track_progress(starts, "comparing items", len(starts)):
        block = np.arange(start, min(start + size, n_items))
        cosine = (by_item[block] @ by_user).toarray()
        cosine[np.arange(len(block)), block] = -1.0
        # A stable sort of the whole row makes the choice among equally near items the same every time.
        order = torch.sort(torch.as_tensor(cosine), dim=1, descending=True, stable=True)
        nearest[block] = order.indices[:, :k].numpy()
        similarity[block] = order.values[:, :k].clamp(min=0.0).numpy()
    return nearest, similarity
