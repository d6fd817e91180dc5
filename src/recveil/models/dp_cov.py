"""dp-cov: item vectors from one noisy item-by-item matrix, with differential privacy of users."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from scipy import linalg, sparse

from recveil.core.option_types import Count, NonNegativeFloat
from recveil.core.privacy_parts import GaussianRelease
from recveil.core.traits import ModelTraits
from recveil.core.types import Dataset, FloatArray, IntArray
from recveil.models.nearby_pairs import NearbyPairs
from recveil.models.private_items import LearnedItems, PrivateItemModel
from recveil.models.private_release import HeadItems, add_symmetric_noise, release_typical_length, scale_rows
from recveil.models.sampling import build_interaction_matrix

__all__ = ["PrivateCovariance", "compute_residual_gram", "estimate_directions", "scale_pairs", "weigh_lengths"]

METHODS = (
    ModelTraits(
        "dp-cov",
        builder="PrivateCovariance",
        guarantee="epsilon and delta for each user with all interactions",
        protects_members=True,
        paper="Dwork et al., Analyze Gauss (STOC 2014)",
    ),
)

KEPT_PART_OF_EDGE = 0.7
"""Directions with smaller eigenvalues are dropped; chosen on validation items."""
MIN_RESIDUAL = 1e-6
"""Squared norm under which what is left of a row adds nothing: rounding there could lift it above what is claimed."""

DEFAULT_SPAN = 8.0
"""Where `recency` is not 0; chosen on validation items of ML-1M."""
MIN_FULL_WEIGHT_ITEMS, FULL_WEIGHT_LENGTHS = 15, 1.25
"""Released items with which a user counts in full: at least the first number, and with a span the second in typical
lengths; chosen on validation items and simulated attacks of Last.fm and ML-1M."""
LENGTH_SHARE = 0.01
"""Part of the squared budget that is spent on the typical length of histories, where it is needed."""


@dataclass
class PrivateCovariance(PrivateItemModel):
    """Leading directions of a noisy item-by-item matrix; membership has a guarantee.

    The noisy counts of the items are the first direction, popularity. What is left of each user's row without it is
    scaled to norm 1, so that no part of the budget pays for popularity twice. A row of few items says little about
    what goes together and shows its user most, so it counts less below `full_weight_items`. The Gram matrix of these
    rows is released once with Gaussian noise (Dwork et al., Analyze Gauss, STOC 2014). Its diagonal is dropped: it
    says how often an item occurs, not with which others, and where histories are short it hides all else. Directions
    whose eigenvalues lie well inside the noise are dropped; the others are weighted by eigenvalue / (eigenvalue + r),
    where r is half of the edge of the noise, or `reg` where that is more. A user's vector is the user's row times the
    item vectors, as in PureSVD.

    With a `span`, two items of a user count together by exp(-items between them / `span`) in place of the outer
    product of the row: what a user had at about the same time goes together, and the sensitivity is spent on that
    alone. `recency` then acts on the vectors of users only. The span is 8 by default and 0 (off) where recency is 0,
    as for data without times. `full_weight_items` is 1.25 times the typical length of a history with a span, from a
    noisy release, and 15 without.

    Guarantee: user-level (epsilon, delta) differential privacy of everything served, the choice of items included.
    Sensitivity: one user adds y y' to the matrix, and its Frobenius norm is |y|^2 <= 1; with `span` a matrix that is
    scaled to the same norm. The popular direction and the typical length are noisy and released before; given them,
    what a user adds depends on this user alone.
    Limit: only items with enough users are released and recommended.
    """

    reg: NonNegativeFloat = 10.0
    full_weight_items: Count | None = None
    span: NonNegativeFloat | None = None

    full_weight_items_: float = field(init=False, repr=False, compare=False)
    span_: float = field(init=False, repr=False, compare=False)

    mechanism: ClassVar[str] = "Gaussian noise on item counts and on one item-by-item matrix (dp-cov)"

    def _learn_items(
        self,
        train: Dataset,
        head: HeadItems,
        mu: float,
        noise_rng: np.random.Generator,
        rng: np.random.Generator,
    ) -> LearnedItems:
        mu, releases = self._choose_weights(train, mu, noise_rng)
        noise = 1 / mu
        popular = head.counts / np.linalg.norm(head.counts)
        gram = add_symmetric_noise(self._sum_users(self._restrict_to_head(train), popular), noise, noise_rng)
        np.fill_diagonal(gram, 0.0)
        vectors = estimate_directions(gram, noise, max_directions=self.embedding_size - 1, reg=self.reg)
        releases.append(GaussianRelease(name="item-by-item matrix", sensitivity=1.0, noise=noise))
        return LearnedItems(np.column_stack([popular, vectors]), releases)

    def _choose_weights(
        self, train: Dataset, mu: float, rng: np.random.Generator
    ) -> tuple[float, list[GaussianRelease]]:
        """Choose the span and the full weight; return what is left of the guarantee, and what was released for it."""
        self.span_ = self.span if self.span is not None else DEFAULT_SPAN if self.recency_ else 0.0
        self.full_weight_items_ = float(self.full_weight_items or MIN_FULL_WEIGHT_ITEMS)
        if self.full_weight_items is not None or not self.span_:
            return mu, []
        part = mu * math.sqrt(LENGTH_SHARE)
        length, release = release_typical_length(train, part, max_history=self.max_history, rng=rng)
        self.full_weight_items_ = max(self.full_weight_items_, FULL_WEIGHT_LENGTHS * length)
        return mu * math.sqrt(1 - LENGTH_SHARE), [release]

    def _sum_users(self, seen: Dataset, popular: FloatArray) -> FloatArray:
        """Sum what the users add to the matrix."""
        if not self.span_:
            rows = scale_rows(build_interaction_matrix(seen, self.recency_))
            return compute_residual_gram(rows, popular, self.full_weight_items_)
        pairs = NearbyPairs.find(seen, self.span_)
        return pairs.sum_matrices(scale_pairs(pairs, popular, self.full_weight_items_), popular)

    def _solve_users(self, seen: Dataset, items: FloatArray) -> FloatArray:
        return np.asarray(scale_rows(build_interaction_matrix(seen, self.recency_)) @ items)


def compute_residual_gram(rows: sparse.csr_array, direction: FloatArray, full_weight_items: float) -> FloatArray:
    """Sum the outer products of what is left of each row without a direction, scaled to norm 1 or less.

    One user adds y y' with |y| <= 1, so the sum changes by a matrix of Frobenius norm 1 at most. Rows that lie in the
    direction add nothing, and y y' of a row of n items has the norm n / `full_weight_items` where that is below 1.

    Args:
        rows: rows of norm 1.
        direction: a vector of norm 1 that does not depend on the rows other than by noisy statistics.
        full_weight_items: items with which a row counts in full.
    """
    shares = np.asarray(rows @ direction)
    squares = np.asarray(rows.multiply(rows).sum(1)).ravel() - shares**2
    weight = weigh_lengths(np.diff(rows.indptr), full_weight_items)
    scale = np.where(squares > MIN_RESIDUAL, np.sqrt(weight / np.maximum(squares, MIN_RESIDUAL)), 0.0)
    scaled, along = sparse.csr_array(sparse.diags_array(scale) @ rows), shares * scale
    cross = np.outer(np.asarray(scaled.T @ along), direction)
    products = np.asarray((scaled.T @ scaled).toarray())
    return np.asarray(products - cross - cross.T + (along @ along) * np.outer(direction, direction))


def scale_pairs(pairs: NearbyPairs, direction: FloatArray, full_weight_items: float) -> FloatArray:
    """Compute the factors with which the users' matrices have norm 1 or less without a direction.

    Args:
        pairs: the histories.
        direction: a vector of norm 1 that does not depend on the histories other than by noisy statistics.
        full_weight_items: items with which a history counts in full.
    """
    norms = pairs.compute_norms(direction)
    weight = weigh_lengths(pairs.lengths, full_weight_items)
    return np.divide(weight, norms, out=np.zeros(len(norms)), where=norms > 0)


def weigh_lengths(lengths: IntArray, full_weight_items: float) -> FloatArray:
    """Compute the norm of what a user of so many items adds."""
    return np.minimum(1.0, lengths / full_weight_items)


def estimate_directions(gram: FloatArray, noise: float, *, max_directions: int, reg: float) -> FloatArray:
    """Estimate the leading directions behind a noisy matrix, each scaled by the root of its weight.

    Args:
        gram: the noisy matrix.
        noise: standard deviation of its noise, as `add_symmetric_noise` takes it.
        max_directions: most directions to keep.
        reg: eigenvalue that counts half, unless half of the edge of the noise is larger.
    """
    m = len(gram)
    if max_directions < 1:
        return np.zeros((m, 0))
    values, vectors = linalg.eigh(gram, subset_by_index=[max(0, m - max_directions), m - 1])
    values, vectors = values[::-1], vectors[:, ::-1]
    radius = noise * np.sqrt(m / 2)  # half of the edge of the semicircle: entries have the variance noise^2 / 2
    tiny = 1e-9 * max(float(values[0]), 0.0)
    kept = values > max(KEPT_PART_OF_EDGE * 2 * radius, tiny)
    values, vectors = values[kept], vectors[:, kept]
    return np.asarray(vectors * np.sqrt(values / (values + max(radius, reg))))
