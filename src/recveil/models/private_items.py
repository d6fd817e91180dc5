"""Base of recommenders with private items: what is learned is private, and everybody is served by fold-in.

A user's vector is a function of the released items and of the user's own history, for members and non-members alike. So
whatever an attack sees is computed from private numbers and from what it knows of the user.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

import numpy as np

from recveil.core.errors import UsageError
from recveil.core.option_types import Count, Exponent, NonNegativeFloat, SeedNumber, Width, check_fields
from recveil.core.privacy_parts import GaussianRelease, PrivacyGuarantee
from recveil.core.protocols import Penalty
from recveil.core.types import Dataset, FloatArray, IntArray, Split, TrainingHistory
from recveil.metrics.ranking import collect_seen_items
from recveil.models.private_release import (
    HeadItems,
    NoisyCounts,
    PrivacyBudget,
    clip_histories,
    count_items,
    make_noise_generator,
    release_counts,
    resolve_budget,
    scale_rows,
    select_head_items,
)
from recveil.models.sampling import build_interaction_matrix, wrap_histories
from recveil.models.scoring import compute_dot_scores

__all__ = ["LearnedItems", "PrivateItemModel"]

DEFAULT_RECENCY = 3.0
"""Where the data have times; chosen on validation items of ML-1M."""
MIN_SIMULATED_COUNT = 1e-6

N_POPULAR_ITEMS = 20
"""Items that stand for the history of a user who has no released item."""


@dataclass(frozen=True, eq=False)
class LearnedItems:
    """Vectors of the released items, and the noisy statistics that they were computed from."""

    vectors: FloatArray
    releases: list[GaussianRelease]


@dataclass
class PrivateItemModel(ABC):
    """A recommender whose items are learned with differential privacy of users.

    Args:
        epsilon: privacy budget; 2 if neither it nor `noise` is given.
        delta: probability with which the budget may be exceeded; keep it below 1 / users.
        noise: standard deviations of noise per unit of sensitivity, in place of `epsilon`; 0 gives no guarantee.
        embedding_size: most numbers of a vector.
        head_items: most items to release; by default all whose noisy count is high enough.
        max_history: newest interactions of a user that count.
        recency: a user's newest item counts exp(recency) times as much as the oldest; by default 3 where the data
            have times, and 0 where they have none.
        noise_seed: seed of the noise, for experiments; by default the operating system gives it.
    """

    epsilon: float | None = None
    delta: float = 1e-5
    noise: NonNegativeFloat | None = None
    embedding_size: Width = 128
    head_items: Count | None = None
    max_history: Count = 1_000
    recency: Exponent | None = None
    noise_seed: SeedNumber | None = None
    device: str | None = None

    epochs = 1  # no field: it is neither an option nor learned
    mechanism: ClassVar[str] = ""

    user_vectors_: FloatArray = field(init=False, repr=False, compare=False)
    item_vectors_: FloatArray = field(init=False, repr=False, compare=False)
    released_items_: IntArray = field(init=False, repr=False, compare=False)
    popular_items_: IntArray = field(init=False, repr=False, compare=False)
    recency_: float = field(init=False, repr=False, compare=False)
    known_items_: IntArray | None = field(default=None, init=False, repr=False, compare=False)
    guarantee_: PrivacyGuarantee | None = field(default=None, init=False, repr=False, compare=False)
    notes_: tuple[str, ...] = field(default=(), init=False, repr=False, compare=False)
    history_: TrainingHistory | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_fields(self)
        resolve_budget(self.epsilon, self.noise, self.delta)

    def fit(self, split: Split, *, penalty: Penalty | None = None, rng: np.random.Generator) -> Self:
        """Learn the items of the training part with noise, and fold in all users.

        `rng` starts what is not secret; the noise has a generator of its own (`noise_seed`).
        """
        if penalty is not None:
            raise UsageError(
                f"{type(self).__name__} learns no user vectors in training and takes no in-training defense. "
                "Defend its vectors after training, or train a model that learns by gradients."
            )
        budget = resolve_budget(self.epsilon, self.noise, self.delta)
        noise_rng = make_noise_generator(self.noise_seed, rng)
        train = clip_histories(split.train, self.max_history)
        default = 0.0 if train.time is None else DEFAULT_RECENCY
        self.recency_ = default if self.recency is None else self.recency
        # All items of a row weigh the same here, whatever the recency: so most items pass the threshold.
        counts = count_items(scale_rows(build_interaction_matrix(train, 0.0)))
        if self.known_items_ is not None:
            counts = counts[self.known_items_]
        noisy = release_counts(counts, budget, max_history=self.max_history, rng=noise_rng)
        head = self._choose_items(noisy, budget)
        self.released_items_ = head.items
        self.popular_items_ = np.argsort(-head.counts, kind="stable")[:N_POPULAR_ITEMS]
        learned = self._learn_items(split.train, head, noisy.model_mu, noise_rng, rng)
        self.item_vectors_ = np.zeros((split.train.n_items, learned.vectors.shape[1]), dtype=np.float32)
        self.item_vectors_[head.items] = learned.vectors
        self.user_vectors_ = self._fold_in_data(split.train)
        releases = [*noisy.releases, *learned.releases]
        if self.known_items_ is None:
            self.guarantee_ = budget.build_guarantee(self.mechanism, releases, len(head.items), self.noise_seed)
        self.notes_ = tuple(self._describe_data(split.train, budget))
        return self

    def simulate_release(self, items: IntArray) -> Self:
        """Return an untrained model like this one that releases exactly these items.

        An attacker who knows which items the target released simulates it so. Its noise follows from the generator of
        its training, and it has no guarantee: nothing of it must be released.
        """
        model = replace(self, noise_seed=0 if self.noise_seed is None else self.noise_seed)
        model.known_items_ = items
        return model

    def weigh_histories(self, seen: Dataset) -> FloatArray:
        """Return how much each interaction counts in its user's row of norm 1."""
        rows = scale_rows(build_interaction_matrix(seen, self.recency_))
        return np.asarray(rows[seen.user, seen.item], dtype=np.float64).ravel()

    def score(self, users: IntArray, user_vectors: FloatArray | None = None) -> FloatArray:
        """Score every item; `user_vectors` replaces the vectors of these users.

        Items that are not released score below all others.
        """
        scores = compute_dot_scores(self.user_vectors_, self.item_vectors_, users, user_vectors)
        is_hidden = np.ones(scores.shape[1], dtype=np.bool_)
        is_hidden[self.released_items_] = False
        lowest = scores[:, self.released_items_].min(1, keepdims=True)
        return np.where(is_hidden, lowest - 1, scores)

    def fold_in(self, histories: Sequence[IntArray], *, rng: np.random.Generator | None = None) -> FloatArray:
        """Compute user vectors for histories, as for the users of training.

        Histories are in order of time, oldest first (which matters with `recency` and beyond `max_history`). Nothing is
        random.
        """
        return self._fold_in_data(wrap_histories(histories, len(self.item_vectors_)))

    @abstractmethod
    def _learn_items(
        self,
        train: Dataset,
        head: HeadItems,
        mu: float,
        noise_rng: np.random.Generator,
        rng: np.random.Generator,
    ) -> LearnedItems:
        """Learn the vectors of the head items with noise.

        Args:
            train: the interactions; `_restrict_to_head` keeps those with head items.
            head: the head items.
            mu: the guarantee that all noisy statistics together must keep.
            noise_rng: generator of the noise.
            rng: generator of what is not secret.
        """

    @abstractmethod
    def _solve_users(self, seen: Dataset, items: FloatArray) -> FloatArray:
        """Compute the vectors of users from their interactions with the head items."""

    def _choose_items(self, noisy: NoisyCounts, budget: PrivacyBudget) -> HeadItems:
        """Choose the items to release by noisy counts, or take those that are given."""
        if self.known_items_ is not None:
            return HeadItems(self.known_items_, np.maximum(noisy.values, MIN_SIMULATED_COUNT))
        return select_head_items(noisy, budget, self.head_items)

    def _fold_in_data(self, data: Dataset) -> FloatArray:
        seen = self._restrict_to_head(data)
        # Users without a released item are served like a user of the most popular ones.
        lonely = np.flatnonzero(np.bincount(seen.user, minlength=seen.n_users) == 0)
        user = np.append(seen.user, np.repeat(lonely, len(self.popular_items_)))
        item = np.append(seen.item, np.tile(self.popular_items_[::-1], len(lonely)))
        time = None if seen.time is None else np.append(seen.time, np.zeros(len(item) - len(seen), seen.time.dtype))
        items = self.item_vectors_[self.released_items_]
        return self._solve_users(replace(seen, user=user, item=item, time=time), items).astype(np.float32)

    def _restrict_to_head(self, data: Dataset) -> Dataset:
        """Return the newest interactions with released items, which are numbered from 0."""
        place = np.full(data.n_items, -1, dtype=np.int64)
        place[self.released_items_] = np.arange(len(self.released_items_))
        seen = clip_histories(data.take(place[data.item] >= 0), self.max_history)
        return replace(seen, item=place[seen.item], item_ids=data.item_ids[self.released_items_])

    def _describe_data(self, train: Dataset, budget: PrivacyBudget) -> list[str]:
        """Say what of the data was left out, and whether delta is too large for them."""
        seen = collect_seen_items(train)
        n_long = int((np.bincount(train.user, minlength=train.n_users) > self.max_history).sum())
        n_single = int((np.bincount(seen.indices, minlength=train.n_items) == 1).sum())
        n_users, n_items, n_released = train.n_users, train.n_items, len(self.released_items_)
        notes = [f"{n_released:,} of {n_items:,} items are released; only these are recommended."]
        if n_single:
            fate = (
                "Without noise there is no threshold, so they are released."
                if math.isinf(budget.mu)
                else "They fall below the noisy threshold and are dropped; any of one user's is kept with a "
                f"probability of at most {budget.item_failure:.0e}."
            )
            notes.append(f"Items with a single user, whose names would give that user away: {n_single:,}. {fate}")
        if n_long:
            notes.append(f"Users with more than {self.max_history:,} interactions: {n_long:,}. Only the newest count.")
        if n_users * self.delta > 1:
            notes.append(
                f"delta is {self.delta:g}, above 1 / users ({1 / n_users:.1g}): a release that gives away one whole "
                "user would satisfy it. Use a smaller delta."
            )
        return notes
