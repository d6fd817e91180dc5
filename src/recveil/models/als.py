"""ALS: weighted matrix factorization of implicit feedback, solved exactly for one side at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from scipy import sparse

from recveil.core.device import resolve_device
from recveil.core.errors import UsageError
from recveil.core.option_types import Count, Exponent, PositiveFloat, Width
from recveil.core.progress import track_progress
from recveil.core.protocols import Penalty
from recveil.core.random import make_torch_generator
from recveil.core.traits import ModelTraits
from recveil.core.types import Dataset, FloatArray, IntArray, Split
from recveil.models.sampling import build_interaction_matrix, wrap_histories
from recveil.models.vector_model import VectorModel

__all__ = ["ALS"]

METHODS = (ModelTraits("als", builder="ALS", paper="Hu, Koren and Volinsky, ICDM 2008"),)

TUNED_OPTIONS: Mapping[str, Mapping[str, float]] = {
    "ml-1m": {"embedding_size": 256, "epochs": 10, "reg": 0.004, "weight": 1.0, "recency": 3.0},
}
"""Options by data set, chosen on its validation items (5-core, leave-one-out, full ranking).

`recency` is held at 3, where the newest pair counts twenty times as much as the oldest. The validation items favor 10,
but then a vector depends on the last few items only.
"""

_BLOCK_NUMBERS = 2**22  # numbers gathered at a time


@dataclass
class ALS(VectorModel):
    """Weighted matrix factorization by alternating least squares.

    Hu, Koren and Volinsky, Collaborative Filtering for Implicit Feedback Datasets, ICDM 2008. Seen pairs should score 1
    and all others 0; a pair that was not seen counts `weight` times as much as a seen one. Each vector is the exact
    minimizer given the other side. Users are solved last, so folding in a training history returns that user's vector.

    Departs: `reg` grows with the evidence, (seen + weight * all) per vector, as in Rendle et al. (RecSys 2022), so that
    one value suits rare and popular items. With `recency`, a user's newest pair counts exp(recency) times as much as
    the oldest.
    """

    embedding_size: Width = 64
    epochs: Count = 10
    reg: PositiveFloat = 0.002
    weight: PositiveFloat = 1.0
    recency: Exponent = 0.0
    device: str | None = None

    def fit(self, split: Split, *, penalty: Penalty | None = None, rng: np.random.Generator) -> Self:
        """Learn from the training part; neither validation nor test items are used."""
        if penalty is not None:
            raise UsageError(
                "ALS is solved in closed form and takes no in-training defense. "
                "Defend its vectors after training, or train a model that learns by gradients."
            )
        device = resolve_device(self.device)
        generator = make_torch_generator(rng, device)
        by_user = build_interaction_matrix(split.train, self.recency)
        by_item = sparse.csr_array(by_user.T)
        d = self.embedding_size
        item = torch.randn(split.train.n_items, d, generator=generator, device=device) * (0.1 / d**0.5)
        user = self._solve_rows(item, by_user)
        for _ in track_progress(range(self.epochs), "training ALS", self.epochs):
            item = self._solve_rows(user, by_item)
            user = self._solve_rows(item, by_user)
        self.user_vectors_, self.item_vectors_ = user.cpu().numpy(), item.cpu().numpy()
        return self

    def fold_in(self, histories: Sequence[IntArray], *, rng: np.random.Generator | None = None) -> FloatArray:
        """Compute user vectors for new histories by the equation of training.

        Histories are in order of time, oldest first (which matters only with `recency`). Nothing is random.
        """
        item = torch.as_tensor(self.item_vectors_, device=resolve_device(self.device))
        data: Dataset = wrap_histories(histories, len(item))
        return np.asarray(self._solve_rows(item, build_interaction_matrix(data, self.recency)).cpu().numpy())

    def _solve_rows(self, fixed: torch.Tensor, matrix: sparse.csr_array) -> torch.Tensor:
        """Solve for the best vector of every row, given the vectors of the columns."""
        n, d = matrix.shape[0], fixed.shape[1]
        gram = self.weight * (fixed.T @ fixed)
        eye = torch.eye(d, device=fixed.device)
        out = fixed.new_empty(n, d)
        for block in _iterate_blocks(matrix, d):
            rows, columns, weights = (torch.as_tensor(part, device=fixed.device) for part in block)
            vectors = fixed[columns]  # (rows, longest, d)
            weighted = vectors * weights[:, :, None]
            evidence = weights.sum(1) + self.weight * matrix.shape[1]
            left = vectors.mT @ weighted + gram + (self.reg * evidence)[:, None, None] * eye
            right = weighted.sum(1)[:, :, None]
            out[rows] = torch.cholesky_solve(right, torch.linalg.cholesky(left))[:, :, 0]
        return out


def _iterate_blocks(matrix: sparse.csr_array, d: int) -> Iterator[tuple[IntArray, IntArray, FloatArray]]:
    """Yield blocks of rows of similar length with their columns and weights.

    Shorter rows are padded with weights of 0.
    """
    length = np.diff(matrix.indptr)
    order = np.argsort(length, kind="stable")
    start = 0
    while start < len(order):
        # Rows are in order of length, so the size of a block is known from its last row before it is gathered.
        numbers = np.maximum(length[order[start:]], d) * np.arange(1, len(order) - start + 1) * d
        end = start + max(1, int(np.searchsorted(numbers, _BLOCK_NUMBERS, side="right")))
        rows = order[start:end]
        longest = int(length[rows[-1]])
        inside = np.arange(longest) < length[rows][:, None]
        place = (matrix.indptr[rows][:, None] + np.arange(longest))[inside]
        columns, weights = np.zeros(inside.shape, np.int64), np.zeros(inside.shape, np.float32)
        columns[inside], weights[inside] = matrix.indices[place], matrix.data[place]
        yield rows, columns, weights
        start = end
