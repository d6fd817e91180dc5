"""dp-als: alternating least squares whose item side sees noisy sums only."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from scipy import sparse

from recveil.core.option_types import Count, PositiveFloat, Width
from recveil.core.privacy_parts import GaussianRelease
from recveil.core.traits import ModelTraits
from recveil.core.types import Dataset, FloatArray, IntArray
from recveil.models.als import ALS
from recveil.models.private_items import LearnedItems, PrivateItemModel
from recveil.models.private_release import HeadItems, add_symmetric_noise, scale_rows
from recveil.models.sampling import build_interaction_matrix

__all__ = ["ItemSums", "PrivateALS", "sum_item_statistics"]

METHODS = (
    ModelTraits(
        "dp-als",
        builder="PrivateALS",
        guarantee="epsilon and delta for each user with all interactions",
        paper="Chien et al., Private Alternating Least Squares (ICML 2021)",
    ),
)

SENSITIVITY = float(np.sqrt(3))
"""Of three sums, each of which one user changes by 1 at most."""


@dataclass
class PrivateALS(PrivateItemModel):
    """Alternating least squares with noisy item statistics; membership has a guarantee.

    Chien et al., Private Alternating Least Squares: Practical Private Matrix Completion with Tighter Rates (ICML 2021).
    User vectors are solved exactly and clipped to norm 1. In each of `rounds` rounds, the sums that the item side needs
    are released with Gaussian noise.

    Departs: items are chosen by noisy counts inside the accounting (the public code counts exactly, outside of it), and
    a user's row of weights has norm 1 in place of a fixed number of sampled items.
    """

    embedding_size: Width = 16
    rounds: Count = 2
    reg: PositiveFloat = 0.002
    weight: PositiveFloat = 0.3
    item_reg: PositiveFloat = 20.0

    mechanism: ClassVar[str] = "Gaussian noise on item counts and on the item sums of each round (dp-als)"

    def _learn_items(
        self,
        train: Dataset,
        head: HeadItems,
        mu: float,
        noise_rng: np.random.Generator,
        rng: np.random.Generator,
    ) -> LearnedItems:
        seen = self._restrict_to_head(train)
        rows = scale_rows(build_interaction_matrix(seen, self.recency_))
        noise = SENSITIVITY * np.sqrt(self.rounds) / mu
        items = rng.standard_normal((len(head.items), self.embedding_size)) / np.sqrt(self.embedding_size)
        releases = []
        for number in range(1, self.rounds + 1):
            sums = sum_item_statistics(rows, clip_norms(self._solve_users(seen, items))).add_noise(noise, noise_rng)
            items = sums.solve_items(self.weight, self.item_reg * max(1.0, noise))
            releases.append(GaussianRelease(name=f"item sums of round {number}", sensitivity=SENSITIVITY, noise=noise))
        return LearnedItems(items, releases)

    def _solve_users(self, seen: Dataset, items: FloatArray) -> FloatArray:
        model = ALS(
            embedding_size=items.shape[1], reg=self.reg, weight=self.weight, recency=self.recency_, device="cpu"
        )
        model.item_vectors_ = np.asarray(items, dtype=np.float32)
        return np.asarray(model.fold_in(_list_histories(seen)), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class ItemSums:
    """Sums over users: weighted outer products and vectors for each item, and outer products for all.

    Attributes:
        products: (m, d, d).
        vectors: (m, d).
        total: (d, d).
    """

    products: FloatArray
    vectors: FloatArray
    total: FloatArray

    def add_noise(self, noise: float, rng: np.random.Generator) -> ItemSums:
        """Return the sums with Gaussian noise."""
        return replace(
            self,
            products=add_symmetric_noise(self.products, noise, rng),
            vectors=self.vectors + noise * rng.standard_normal(self.vectors.shape),
            total=add_symmetric_noise(self.total, noise, rng),
        )

    def solve_items(self, weight: float, reg: float) -> FloatArray:
        """Solve for the vectors of items; noise must not make the system indefinite."""
        share = weight / max(len(self.products), 1)
        left = _drop_negative_part(self.products) + share * _drop_negative_part(self.total[None])
        left += reg * np.eye(self.total.shape[0])
        return np.asarray(np.linalg.solve(left, self.vectors[:, :, None])[:, :, 0])


def sum_item_statistics(rows: sparse.csr_array, users: FloatArray) -> ItemSums:
    """Sum what the item side needs; each of the three sums changes by 1 at most with one user.

    Rows and user vectors have norm 1 at most.
    """
    n, d = users.shape
    outer = (users[:, :, None] * users[:, None, :]).reshape(n, d * d)
    products = np.asarray(rows.T @ outer).reshape(-1, d, d)
    return ItemSums(products, np.asarray(rows.T @ users), users.T @ users)


def clip_norms(users: FloatArray) -> FloatArray:
    """Shorten vectors to norm 1."""
    return np.asarray(users / np.maximum(1.0, np.linalg.norm(users, axis=1, keepdims=True)))


def _drop_negative_part(matrices: FloatArray) -> FloatArray:
    values, vectors = np.linalg.eigh(matrices)
    return np.asarray((vectors * np.maximum(values, 0)[:, None, :]) @ np.swapaxes(vectors, 1, 2))


def _list_histories(seen: Dataset) -> list[IntArray]:
    """Return the items of each user, oldest first."""
    order = np.lexsort((np.arange(len(seen)) if seen.time is None else seen.time, seen.user))
    return np.split(seen.item[order], np.cumsum(np.bincount(seen.user, minlength=seen.n_users))[:-1])
