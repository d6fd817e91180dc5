"""A model: the leading singular vectors of the seen items."""

from dataclasses import dataclass, field

import numpy as np

from recveil.core.traits import ModelTraits

METHODS = (ModelTraits("toy-model", builder="ToyModel"),)


@dataclass
class ToyModel:
    """The best approximation of the matrix of interactions by matrices of low rank."""

    embedding_size: int = 8

    epochs = 1

    user_vectors_: np.ndarray = field(init=False, repr=False)
    item_vectors_: np.ndarray = field(init=False, repr=False)
    history_: None = field(default=None, init=False, repr=False)

    def fit(self, split, *, penalty=None, rng):  # type: ignore[no-untyped-def]
        """Factor the training part."""
        seen = np.zeros((split.train.n_users, split.train.n_items))
        seen[split.train.user, split.train.item] = 1
        left, values, right = np.linalg.svd(seen, full_matrices=False)
        self.user_vectors_ = (left * values)[:, : self.embedding_size].astype(np.float32)
        self.item_vectors_ = np.ascontiguousarray(right[: self.embedding_size].T, dtype=np.float32)
        return self

    def score(self, users, user_vectors=None):  # type: ignore[no-untyped-def]
        """Score every item for these users."""
        rows = self.user_vectors_[users] if user_vectors is None else user_vectors
        return rows @ self.item_vectors_.T
