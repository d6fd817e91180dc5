"""ALS: matrix factorization for implicit feedback, solved exactly, one side at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np
import torch
from scipy import sparse

from recveil.core import Dataset, FloatArray, IntArray, Penalty, Split
from recveil.device import resolve
from recveil.errors import UsageError
from recveil.metrics.ranking import seen_items
from recveil.models.publish import dot_scores
from recveil.models.sampling import from_histories
from recveil.progress import track
from recveil.random import torch_generator

__all__ = ["ALS"]

_BLOCK = 2**22  # numbers gathered at a time


@dataclass
class ALS:
    """Weighted matrix factorization (Hu, Koren and Volinsky, ICDM 2008): touched pairs should score 1, all others 0.

    An untouched pair counts `weight` times as much as a touched one. Each vector is the exact minimizer given the other
    side, users last, so folding a training history in gives back the very vector of that user.

    Departs: `reg` grows with the evidence, (touched + weight * all) per vector, as in Rendle et al. (RecSys 2022),
    so that one value suits rare and popular items.
    """

    embedding_size: int = 64
    epochs: int = 15
    reg: float = 0.01
    weight: float = 0.1
    device: str | None = None

    user_vectors_: FloatArray = field(init=False, repr=False, compare=False)
    item_vectors_: FloatArray = field(init=False, repr=False, compare=False)

    def fit(self, split: Split, *, penalty: Penalty | None = None, rng: np.random.Generator) -> Self:
        """Learn from the training part."""
        if penalty is not None:
            raise UsageError(
                "ALS is solved in closed form and takes no in-training defense. "
                "Defend its vectors after training, or train 'bprmf'."
            )
        if not (self.reg > 0 and self.weight > 0):
            raise UsageError(f"reg is {self.reg} and weight is {self.weight}. Both must be positive.")
        device = resolve(self.device)
        generator = torch_generator(rng, device)
        by_user = seen_items(split.train)
        by_item = sparse.csr_array(by_user.T)
        d = self.embedding_size
        item = torch.randn(split.train.n_items, d, generator=generator, device=device) * (0.1 / d**0.5)
        user = self._solve(item, by_user)
        for _ in track(range(self.epochs), "training ALS", self.epochs):
            item = self._solve(user, by_item)
            user = self._solve(item, by_user)
        self.user_vectors_, self.item_vectors_ = user.cpu().numpy(), item.cpu().numpy()
        return self

    def score(self, users: IntArray, user_vectors: FloatArray | None = None) -> FloatArray:
        """A score for every item; `user_vectors` are the rows of these users to use in place of the model's own."""
        return dot_scores(self.user_vectors_, self.item_vectors_, users, user_vectors)

    def fold_in(self, histories: Sequence[IntArray], *, rng: np.random.Generator | None = None) -> FloatArray:
        """Vectors for users outside training, by the very equation that gave those of the training users."""
        item = torch.as_tensor(self.item_vectors_, device=resolve(self.device))
        data: Dataset = from_histories(histories, len(item))
        return np.asarray(self._solve(item, seen_items(data)).cpu().numpy())

    def _solve(self, fixed: torch.Tensor, touched: sparse.csr_array) -> torch.Tensor:
        """The best vector of every row of `touched`, given the vectors of its columns."""
        n, d = touched.shape[0], fixed.shape[1]
        gram = self.weight * (fixed.T @ fixed)
        eye = torch.eye(d, device=fixed.device)
        padded = torch.cat([fixed, fixed.new_zeros(1, d)])  # rows of zeros fill the shorter histories of a block
        count = torch.as_tensor(np.diff(touched.indptr), device=fixed.device)
        out = fixed.new_empty(n, d)
        for rows, columns in _blocks(touched, d):
            where = torch.as_tensor(rows, device=fixed.device)
            known = padded[torch.as_tensor(columns, device=fixed.device)]  # (rows, longest, d)
            evidence = count[where] + self.weight * touched.shape[1]
            left = known.mT @ known + gram + (self.reg * evidence)[:, None, None] * eye
            right = known.sum(1, keepdim=True).mT
            out[where] = torch.cholesky_solve(right, torch.linalg.cholesky(left))[:, :, 0]
        return out


def _blocks(touched: sparse.csr_array, d: int) -> Iterator[tuple[IntArray, IntArray]]:
    """Rows of like length together, with their columns side by side; the last column number fills up."""
    length = np.diff(touched.indptr)
    order = np.argsort(length, kind="stable")
    at = 0
    while at < len(order):
        # Rows are in order of length, so the longest of the next few is known before they are cut.
        room = np.maximum(length[order[at:]], d) * np.arange(1, len(order) - at + 1) * d
        end = at + max(1, int(np.searchsorted(room, _BLOCK, side="right")))
        rows = order[at:end]
        longest = int(length[rows[-1]])
        place = touched.indptr[rows][:, None] + np.arange(longest)
        inside = np.arange(longest) < length[rows][:, None]
        columns = np.full(place.shape, touched.shape[1], dtype=np.int64)
        columns[inside] = touched.indices[place[inside]]
        yield rows, columns
        at = end
