"""PureSVD: the leading singular vectors of who touched what. Few users lie far out, which is hard on defenses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np
from scipy.sparse.linalg import svds

from recveil.core.errors import UsageError
from recveil.core.protocols import Penalty
from recveil.core.traits import ModelTraits
from recveil.core.types import FloatArray, IntArray, Split, TrainingHistory
from recveil.metrics.ranking import collect_seen_items
from recveil.models.sampling import wrap_histories
from recveil.models.scoring import compute_dot_scores

__all__ = ["PureSVD"]

METHODS = (ModelTraits("puresvd", builder="PureSVD", paper="Cremonesi, Koren and Turrin, RecSys 2010"),)


@dataclass
class PureSVD:
    """The best approximation of the 0/1 matrix of a given rank (Cremonesi, Koren and Turrin, RecSys 2010).

    A user's vector is the user's row of the matrix times the item vectors, which are orthonormal. So folding a training
    history in gives back that user's vector, and active users have long vectors.
    """

    embedding_size: int = 48
    device: str | None = None

    epochs = 1  # no field: it is neither an option nor learned

    user_vectors_: FloatArray = field(init=False, repr=False, compare=False)
    item_vectors_: FloatArray = field(init=False, repr=False, compare=False)
    history_: TrainingHistory | None = field(default=None, init=False, repr=False, compare=False)

    def fit(self, split: Split, *, penalty: Penalty | None = None, rng: np.random.Generator) -> Self:
        """Factor the training part; `rng` gives the vector to start from, which decides signs and no more."""
        if penalty is not None:
            raise UsageError(
                "PureSVD is solved in closed form and takes no in-training defense. "
                "Defend its vectors after training, or train 'bprmf'."
            )
        touched = collect_seen_items(split.train).astype(np.float64)
        most = min(touched.shape) - 1
        if not 0 < self.embedding_size <= most:
            raise UsageError(f"embedding_size is {self.embedding_size}. Of this data it must lie between 1 and {most}.")
        start = rng.standard_normal(min(touched.shape))
        _, values, right = svds(touched, k=self.embedding_size, v0=start)
        items = right[np.argsort(-values)].T
        self.item_vectors_ = np.ascontiguousarray(items, dtype=np.float32)
        self.user_vectors_ = np.asarray(touched @ items, dtype=np.float32)
        return self

    def score(self, users: IntArray, user_vectors: FloatArray | None = None) -> FloatArray:
        """A score for every item; `user_vectors` are the rows of these users to use in place of the model's own."""
        return compute_dot_scores(self.user_vectors_, self.item_vectors_, users, user_vectors)

    def fold_in(self, histories: Sequence[IntArray], *, rng: np.random.Generator | None = None) -> FloatArray:
        """Vectors for users outside training, by the product that gave those of the training users."""
        touched = collect_seen_items(wrap_histories(histories, len(self.item_vectors_)))
        return np.asarray(touched @ self.item_vectors_, dtype=np.float32)
