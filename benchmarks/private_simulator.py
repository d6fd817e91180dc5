"""What an attacker who knows `dp-cov` simulates: its noisy releases for other halves of the users.

The attacker knows the released items and their noisy counts, which are averages of two releases. Given both, the matrix
depends on the members alone, so it is drawn for other halves; counts are drawn above the threshold of the items that
are known to have passed it.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy import linalg, sparse, stats

from recveil.audits.membership.platforms import TrainedPlatform
from recveil.core.types import BoolArray, FloatArray
from recveil.models.dp_cov import (
    KEPT_PART_OF_EDGE,
    PrivateCovariance,
    compute_residual_gram,
    estimate_directions,
    scale_pairs,
    weigh_lengths,
)
from recveil.models.nearby_pairs import NearbyPairs, project_out
from recveil.models.private_release import (
    add_symmetric_noise,
    clip_histories,
    compute_item_threshold,
    scale_rows,
)
from recveil.models.sampling import build_interaction_matrix

__all__ = ["Simulator", "Statistics"]

Statistics = dict[str, FloatArray]


@dataclass(frozen=True, eq=False)
class RowMatrices:
    """What each user adds to the released matrix: y y', where y is the user's row without popularity."""

    rows: sparse.csr_array
    popular: FloatArray
    full_weight_items: float

    @property
    def norms(self) -> FloatArray:
        """Norm of what each user adds."""
        return weigh_lengths(np.diff(self.rows.indptr), self.full_weight_items)

    def sum_users(self, users: BoolArray) -> FloatArray:
        """Sum what these users add."""
        return compute_residual_gram(self.rows[np.flatnonzero(users)], self.popular, self.full_weight_items)

    def multiply(self, matrix: FloatArray) -> FloatArray:
        """Compute the inner product of what each user adds with a matrix."""
        along = np.asarray(self.rows @ self.popular)
        squares = np.asarray(self.rows.multiply(self.rows).sum(1)).ravel() - along**2
        products = self.rows @ project_out(matrix, self.popular)
        energy = np.asarray(self.rows.multiply(products).sum(1)).ravel()
        return np.asarray(self.norms * energy / np.maximum(squares, 1e-9))


@dataclass(frozen=True, eq=False)
class PairMatrices:
    """What each user adds to the released matrix where items count together by nearness in time."""

    pairs: NearbyPairs
    popular: FloatArray
    full_weight_items: float

    @property
    def norms(self) -> FloatArray:
        """Norm of what each user adds."""
        return weigh_lengths(self.pairs.lengths, self.full_weight_items)

    @cached_property
    def scale(self) -> FloatArray:
        """Factor of each user's pairs."""
        return scale_pairs(self.pairs, self.popular, self.full_weight_items)

    def sum_users(self, users: BoolArray) -> FloatArray:
        """Sum what these users add."""
        return self.pairs.sum_matrices(self.scale * users, self.popular)

    def multiply(self, matrix: FloatArray) -> FloatArray:
        """Compute the inner product of what each user adds with a matrix."""
        return self.scale * self.pairs.multiply(project_out(matrix, self.popular))


@dataclass(frozen=True, eq=False)
class Simulator:
    """Rows of all users over the released items, what they add to the releases, and the mechanism."""

    rows: sparse.csr_array
    count_rows: sparse.csr_array
    added: RowMatrices | PairMatrices
    model: PrivateCovariance

    @classmethod
    def watch(cls, target: TrainedPlatform, model: PrivateCovariance) -> "Simulator":
        """Take from a trained target what its attacker knows."""
        items, history = np.flatnonzero(target.is_known), clip_histories(target.history, model.max_history)
        count_rows = sparse.csr_array(scale_rows(build_interaction_matrix(history, 0.0))[:, items])
        seen = target.history.take(target.is_known[target.history.item])
        seen = replace(seen, item=np.searchsorted(items, seen.item), item_ids=seen.item_ids[items])
        seen = clip_histories(seen, model.max_history)
        rows = scale_rows(build_interaction_matrix(seen, model.recency_))
        popular = np.asarray(model.item_vectors_[model.released_items_, 0], dtype=np.float64)
        popular /= np.linalg.norm(popular)
        added: RowMatrices | PairMatrices = RowMatrices(rows, popular, model.full_weight_items_)
        if model.span_:
            added = PairMatrices(NearbyPairs.find(seen, model.span_), popular, model.full_weight_items_)
        return cls(rows, count_rows, added, model)

    def draw_statistics(
        self, users: BoolArray, rng: np.random.Generator, *, popular: FloatArray | None = None
    ) -> Statistics:
        """Draw the releases of these users, and compute what each attacker compares for all users.

        `popular` is the direction of the noisy counts where it is known: that of the target.
        """
        gram = add_symmetric_noise(self.added.sum_users(users), self._get_noise("item-by-item matrix"), rng)
        np.fill_diagonal(gram, 0.0)
        return self._compute_statistics(gram, self._draw_popular(users, rng) if popular is None else popular)

    def _draw_popular(self, users: BoolArray, rng: np.random.Generator) -> FloatArray:
        """Draw the direction of the noisy counts, given that all of these items were released."""
        assert self.model.guarantee_ is not None
        noise = 1 / np.hypot(*(1 / self._get_noise(name) for name in ("first item counts", "item counts")))
        counts = np.asarray(self.count_rows[np.flatnonzero(users)].sum(0)).ravel()
        threshold = compute_item_threshold(noise, self.model.guarantee_.item_failure / 2, self.model.max_history)
        noisy = stats.truncnorm.rvs((threshold - counts) / noise, np.inf, counts, noise, random_state=rng)
        return np.asarray(noisy / np.linalg.norm(noisy))

    def _compute_statistics(self, gram: FloatArray, popular: FloatArray) -> Statistics:
        size, noise = self.model.embedding_size - 1, self._get_noise("item-by-item matrix")
        vectors = estimate_directions(gram, noise, max_directions=size, reg=self.model.reg)
        values, directions = linalg.eigh(gram)
        kept = values > KEPT_PART_OF_EDGE * 2 * noise * np.sqrt(len(gram) / 2)
        along, folded = np.asarray(self.rows @ popular), np.asarray(self.rows @ vectors)
        counted, count_folded = np.asarray(self.count_rows @ popular), np.asarray(self.count_rows @ vectors)
        own = along**2 + np.square(folded).sum(1)
        return {
            "self-score": own,
            "weighted self-score": self.added.norms * own,
            "evenly weighted score": along * counted + (folded * count_folded).sum(1),
            "score matrix": self.added.multiply(vectors @ vectors.T),
            "item side": self.added.multiply((directions[:, kept] * values[kept]) @ directions[:, kept].T),
            "noisy matrix": self.added.multiply(gram),
            "counts": counted,
        }

    def _get_noise(self, name: str) -> float:
        assert self.model.guarantee_ is not None
        return next(release.noise for release in self.model.guarantee_.releases if release.name == name)
