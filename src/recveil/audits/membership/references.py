"""Reference models of a target: models like it, each on half of its users.

Every user is in one half of the models and not in the other. The target and all reference models are asked for scores
of the items of each history; users that a model was not trained on are folded in, as on the platform. Only items that
all models know are used: an item is in a catalog because some member has it, which would reveal a member who is the
only one to have it.

The attacker knows the mechanism of a private target and the items that it released: reference models simulate it for
exactly these items. Models that choose their own items would share few with the target, and show little of the leak.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np

from recveil.attacks.membership.difference_vectors import flatten_histories
from recveil.attacks.membership.score_signals import SIGNALS, compute_pair_signals
from recveil.audits.membership.histories import KnownHistories
from recveil.audits.membership.platforms import ServingPolicy, TrainedPlatform, train_platform
from recveil.core.device import resolve_device, use_one_thread
from recveil.core.errors import DataError, UsageError, unknown_name
from recveil.core.progress import track_progress
from recveil.core.protocols import PrivateRecommender, Recommender
from recveil.core.types import BoolArray, Dataset, FloatArray, IntArray, ReferenceSignals
from recveil.data.member_split import MemberPart

__all__ = ["ReferenceModels", "draw_halves", "find_shared_items"]

AUTO_SIGNAL = "auto"
MIN_REFERENCE_MODELS = 4
"""Two with each user and two without."""
MAX_MODELS_AT_ONCE = 8


@dataclass(frozen=True)
class ReferenceModels:
    """Number of reference models, and the signal taken from scores.

    `"rank-percentile"` suits every model and needs ranks only; `"log-odds"` those trained by cross-entropy,
    `"bpr-margin"` those by BPR. `"self-score"` is the sum of the scores of a history, weighted as in the model's rows:
    x'Mx for models that score a row x by Mx, such as PureSVD and `dp-cov`. `"auto"` takes `"self-score"` for private
    targets, and `"rank-percentile"` otherwise. Ranks are computed on `device`.
    """

    n: int = 16
    signal: str = "auto"
    device: str | None = "cpu"

    def __post_init__(self) -> None:
        if self.n < MIN_REFERENCE_MODELS or self.n % 2:
            raise UsageError(
                f"{self.n} reference models were asked for. An even number of {MIN_REFERENCE_MODELS} or more is "
                "needed, so that each user is in half of them."
            )
        if self.signal not in (AUTO_SIGNAL, *SIGNALS):
            raise unknown_name("signal", self.signal, (AUTO_SIGNAL, *SIGNALS))

    def choose_signal(self, model: Recommender) -> str:
        """Return the signal to take from models like this one."""
        if self.signal != AUTO_SIGNAL:
            return self.signal
        return "self-score" if isinstance(model, PrivateRecommender) else "rank-percentile"

    def _count_workers(self) -> int:
        """Count the models to train at once; they may be large, and one is enough for an accelerator."""
        return min(MAX_MODELS_AT_ONCE, os.cpu_count() or 1) if resolve_device(self.device).type == "cpu" else 1

    def check_policy(self, policy: ServingPolicy) -> None:
        """Refuse a policy under which non-members get no scores of their own."""
        if not policy.folds_in_nonmembers:
            raise UsageError(
                "Attacks with reference models compare the scores of users, and popularity is the same for all. "
                "Serve non-members by fold-in."
            )

    def collect_signals(
        self,
        part: MemberPart,
        target: TrainedPlatform,
        make_model: Callable[[], Recommender],
        *,
        rng: np.random.Generator,
    ) -> ReferenceSignals:
        """Train the models and collect their signals and the target's.

        Args:
            part: users of the target; their membership is not used.
            target: the trained target.
            make_model: makes an untrained reference model.
            rng: source of randomness of the halves and of the trainings.

        Raises:
            UsageError: the target serves non-members by popularity.
            DataError: no item is known to all models.
        """
        self.check_policy(target.policy)
        trained_on = draw_halves(part.data.n_users, self.n, rng)
        policy = replace(target.policy, k=1)  # no lists are made, so any catalog is large enough
        is_shared = target.is_known & find_shared_items(target, trained_on)
        pairs, signal = _SharedPairs.find(target, is_shared), self.choose_signal(target.model)
        known, generators = KnownHistories(target.history, target.held_out), rng.spawn(self.n)

        def watch_reference(r: int) -> FloatArray:
            half = MemberPart(part.data, trained_on[:, r])
            reference = train_platform(
                half, make_model(), policy, rng=generators[r], known_items=target.is_known, known=known
            )
            return pairs.compute_log_odds(reference, signal, self.device)

        target_signals = pairs.compute_log_odds(target, signal, self.device)
        # One thread within each model, so that the number of threads decides nothing.
        with use_one_thread(), ThreadPoolExecutor(self._count_workers()) as pool:
            numbers = range(self.n)
            signals = list(track_progress(pool.map(watch_reference, numbers), "training reference models", self.n))
        return ReferenceSignals(
            user=pairs.user,
            reference=np.stack(signals, axis=1),
            target=target_signals,
            trained_on=trained_on,
            scored_users=np.arange(part.data.n_users),
            weight=pairs.weigh_rows(target.model) if signal == "self-score" else None,
        )


def draw_halves(n_users: int, n_models: int, rng: np.random.Generator) -> BoolArray:
    """Draw which users are in which model: every user in half of them.

    Args:
        n_users: number of users.
        n_models: number of models, even.
        rng: source of randomness.
    """
    inside: BoolArray = rng.permuted(np.tile(np.arange(n_models) < n_models // 2, (n_users, 1)), axis=1)
    return inside


def find_shared_items(target: TrainedPlatform, trained_on: BoolArray) -> BoolArray:
    """Mark the items that occur in each of the halves."""
    history = target.history
    occurs = [np.bincount(history.item[half[history.user]], minlength=history.n_items) > 0 for half in trained_on.T]
    return np.asarray(np.all(occurs, axis=0))


@dataclass(frozen=True, eq=False)
class _SharedPairs:
    """Users with an item that all models know, and those items of theirs.

    Items are numbered from 0.
    """

    users: IntArray
    histories: list[IntArray]
    items: IntArray
    history: Dataset

    @classmethod
    def find(cls, target: TrainedPlatform, is_shared: BoolArray) -> _SharedPairs:
        history = target.history.take(is_shared[target.history.item])
        # A user who has all of these items leaves none to compare with, and is scored as one without evidence.
        n_own = np.bincount(history.user, minlength=history.n_users)
        history = history.take(n_own[history.user] < is_shared.sum())
        users, counts = np.unique(history.user, return_counts=True)
        if not len(users):
            raise DataError("No item is known to the target and to all reference models. Use fewer, or more data.")
        items = np.flatnonzero(is_shared)
        histories = np.split(np.searchsorted(items, history.item), np.cumsum(counts)[:-1])
        return cls(users, histories, items, history)

    @property
    def user(self) -> IntArray:
        return self.users[flatten_histories(self.histories)[0]]

    def weigh_rows(self, model: Recommender) -> FloatArray:
        """Return how much each pair counts in the row of its user, whose norm is 1."""
        if isinstance(model, PrivateRecommender):
            return model.weigh_histories(self.history)
        lengths = np.bincount(self.history.user)
        return np.asarray(1 / np.sqrt(lengths[self.history.user]))

    def compute_log_odds(self, model: TrainedPlatform, kind: str, device: str | None) -> FloatArray:
        """Compute the signal of each pair by this model."""

        def score(rows: IntArray) -> FloatArray:
            return model.score(self.users[rows])[:, self.items]

        value = compute_pair_signals(score, self.histories, kind, device=device).value
        return np.asarray(np.log(value / (1 - value))) if kind == "rank-percentile" else value
