"""Reference models of a target: trained as the attacker thinks the target was, each on half of its users.

Every user is in one half of the models and not in the other, so that there are models with and without each. The
target and all of them are asked for scores of what each user touched; users whom a model was not trained on are folded
in, as the platform does. Only items that all of them know are looked at: that an item is in a catalog at all says that
some member touched it, and would tell by itself who alone did.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from recveil.attacks.membership.difference_vectors import flatten_histories
from recveil.attacks.membership.likelihood import SIGNALS, pair_signals
from recveil.attacks.membership.reference_attacks import Evidence
from recveil.audits.membership.platforms import ServingPolicy, TrainedPlatform, train_platform
from recveil.core.errors import DataError, UsageError, unknown_name
from recveil.core.progress import track
from recveil.core.protocols import Recommender
from recveil.core.types import FloatArray, IntArray
from recveil.data.member_split import Side

__all__ = ["ReferenceModels"]

MIN_REFERENCE_MODELS = 4
"""Two with each user and two without."""


@dataclass(frozen=True)
class ReferenceModels:
    """How many reference models there are, and the signal that is taken from their scores and the target's.

    `"rank-percentile"` suits every model; `"log-odds"` those trained by cross-entropy, `"bpr-margin"` those by BPR.
    """

    n: int = 16
    signal: str = "rank-percentile"

    def __post_init__(self) -> None:
        if self.n < MIN_REFERENCE_MODELS or self.n % 2:
            raise UsageError(
                f"{self.n} reference models were asked for. An even number of {MIN_REFERENCE_MODELS} or more is needed, so that as "
                "many have each user as have not."
            )
        if self.signal not in SIGNALS:
            raise unknown_name("signal", self.signal, SIGNALS)

    def check(self, policy: ServingPolicy) -> None:
        """Say it where these models could not be compared with a target that serves like this."""
        if policy.nonmembers != "fold-in":
            raise UsageError(
                "Attacks with reference models compare the scores that users get, and charts are the same for all. "
                "Serve by fold-in."
            )

    def evidence(
        self, side: Side, target: TrainedPlatform, make: Callable[[], Recommender], *, rng: np.random.Generator
    ) -> Evidence:
        """Train the models and ask them and the target; who is a member of the side is not looked at."""
        self.check(target.policy)
        inside = draw_halves(side.data.n_users, self.n, rng)
        known = (target.popularity > 0) & find_shared_items(target, inside)
        pairs = _SharedPairs.of(target, known)
        observed = pairs.log_odds(target, self.signal)
        unlisted, signal = replace(target.policy, k=1), []
        for r in track(range(self.n), "training reference models", self.n):
            reference = train_platform(Side(side.data, inside[:, r]), make(), unlisted, rng=rng.spawn(1)[0])
            signal.append(pairs.log_odds(reference, self.signal))
        return Evidence(pairs.user, np.stack(signal, axis=1), observed, inside)


def draw_halves(users: int, n: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Who is in which of n models: every user in half of them."""
    inside: NDArray[np.bool_] = rng.permuted(np.tile(np.arange(n) < n // 2, (users, 1)), axis=1)
    return inside


def find_shared_items(target: TrainedPlatform, inside: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which items somebody touched in each of the halves."""
    history = target.history
    touched = [np.bincount(history.item[who[history.user]], minlength=history.n_items) > 0 for who in inside.T]
    return np.asarray(np.all(touched, axis=0))


@dataclass(frozen=True, eq=False)
class _SharedPairs:
    """Users who touched any item that all models know, and those items, numbered from 0."""

    users: IntArray
    histories: list[IntArray]
    known: IntArray

    @classmethod
    def of(cls, target: TrainedPlatform, known: NDArray[np.bool_]) -> _SharedPairs:
        history = target.history.take(known[target.history.item])
        users, counts = np.unique(history.user, return_counts=True)
        if not len(users):
            raise DataError("No item is known to the target and to all reference models. Use fewer, or more data.")
        items = np.flatnonzero(known)
        return cls(users, np.split(np.searchsorted(items, history.item), np.cumsum(counts)[:-1]), items)

    @property
    def user(self) -> IntArray:
        return self.users[flatten_histories(self.histories)[0]]

    def log_odds(self, model: TrainedPlatform, kind: str) -> FloatArray:
        """Of each pair, by this model."""

        def score(rows: IntArray) -> FloatArray:
            return model.score(self.users[rows])[:, self.known]

        value = pair_signals(score, self.histories, kind).value
        return np.asarray(np.log(value / (1 - value))) if kind == "rank-percentile" else value
