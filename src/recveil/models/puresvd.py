"""PureSVD: the leading singular vectors of the interaction matrix. A few users are far outliers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import svds

from recveil.core.device import resolve_device
from recveil.core.errors import UsageError
from recveil.core.option_types import Width
from recveil.core.protocols import Penalty
from recveil.core.traits import ModelTraits
from recveil.core.types import FloatArray, IntArray, Split
from recveil.metrics.ranking import collect_seen_items
from recveil.models.sampling import wrap_histories
from recveil.models.vector_model import VectorModel

if TYPE_CHECKING:
    import torch

__all__ = ["PureSVD"]

METHODS = (ModelTraits("puresvd", builder="PureSVD", paper="Cremonesi, Koren and Turrin, RecSys 2010"),)


@dataclass
class PureSVD(VectorModel):
    """Truncated singular value decomposition of the 0/1 interaction matrix.

    Cremonesi, Koren and Turrin, Performance of Recommender Algorithms on Top-N Recommendation Tasks, RecSys 2010. A
    user vector is the user's row of the matrix times the item vectors, which are orthonormal. So folding in a training
    history returns that user's vector, and active users have long vectors.
    """

    embedding_size: Width = 48
    device: str | None = None

    epochs = 1  # no field: it is neither an option nor learned

    def fit(self, split: Split, *, penalty: Penalty | None = None, rng: np.random.Generator) -> Self:
        """Factor the training part.

        `rng` draws the starting vector of the iteration, which decides only signs.
        """
        if penalty is not None:
            raise UsageError(
                "PureSVD is solved in closed form and takes no in-training defense. "
                "Defend its vectors after training, or train a model that learns by gradients."
            )
        matrix = collect_seen_items(split.train).astype(np.float64)
        max_rank = min(matrix.shape) - 1
        if self.embedding_size > max_rank:
            raise UsageError(
                f"embedding_size is {self.embedding_size}. For this data set it must lie between 1 and {max_rank}."
            )
        start, device = rng.standard_normal(min(matrix.shape)), resolve_device(self.device)
        if device.type == "cpu":
            _, values, right = svds(matrix, k=self.embedding_size, v0=start)
            items = right[np.argsort(-values)].T
        else:
            items = _find_leading_directions(matrix, self.embedding_size, device)
        self.item_vectors_ = np.ascontiguousarray(items, dtype=np.float32)
        self.user_vectors_ = np.asarray(matrix @ items, dtype=np.float32)
        return self

    def fold_in(self, histories: Sequence[IntArray], *, rng: np.random.Generator | None = None) -> FloatArray:
        """Compute user vectors for new histories by the product of training.

        Nothing is random.
        """
        matrix = collect_seen_items(wrap_histories(histories, len(self.item_vectors_)))
        return np.asarray(matrix @ self.item_vectors_, dtype=np.float32)


def _find_leading_directions(matrix: sparse.csr_array, k: int, device: torch.device) -> FloatArray:
    """Return the k leading right singular vectors from the Gram matrix, which an accelerator decomposes at once."""
    import torch

    rows = torch.as_tensor(matrix.toarray(), dtype=torch.float32, device=device)
    vectors = torch.linalg.eigh((rows.T @ rows).double()).eigenvectors
    return np.asarray(vectors[:, -k:].flip(1).cpu().numpy())
