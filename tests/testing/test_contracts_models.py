"""A contract is worth what it catches: each broken model here must fail with the sentence that names its fault."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from recveil.models.als import ALS
from recveil.testing.contracts_models import check_recommender


def sound() -> ALS:
    return ALS(embedding_size=6, epochs=5, device="cpu")


def test_a_sound_model_passes() -> None:
    check_recommender(sound)


@dataclass
class Restless(ALS):
    def fit(self, split: Any, *, penalty: Any = None, rng: np.random.Generator) -> Any:
        return super().fit(split, penalty=penalty, rng=np.random.default_rng())


@dataclass
class Wide(ALS):
    def fit(self, split: Any, *, penalty: Any = None, rng: np.random.Generator) -> Any:
        super().fit(split, penalty=penalty, rng=rng)
        self.user_vectors_ = self.user_vectors_.astype(np.float64)
        return self


@dataclass
class Popular(ALS):
    def score(self, users: Any, user_vectors: Any = None) -> Any:
        return np.zeros((len(users), len(self.item_vectors_)), np.float32)


@dataclass
class Hoarder(ALS):
    """Keeps something user-indexed to itself."""

    def score(self, users: Any, user_vectors: Any = None) -> Any:
        return super().score(users, user_vectors) + np.asarray(users)[:, None].astype(np.float32)


@dataclass
class Moody(ALS):
    def score(self, users: Any, user_vectors: Any = None) -> Any:
        return super().score(users, user_vectors) * (1.0 if user_vectors is None else 2.0)


@dataclass
class Strict(ALS):
    """Has nothing to say on users with fewer than two items."""

    def fit(self, split: Any, *, penalty: Any = None, rng: np.random.Generator) -> Any:
        super().fit(split, penalty=penalty, rng=rng)
        self.user_vectors_[np.bincount(split.train.user, minlength=split.train.n_users) < 2] = np.nan
        return self


@dataclass
class Forgetful(ALS):
    """Learns something that is no field, so that it is not saved."""

    def fit(self, split: Any, *, penalty: Any = None, rng: np.random.Generator) -> Any:
        super().fit(split, penalty=penalty, rng=rng)
        self.popularity = np.bincount(split.train.item, minlength=split.train.n_items)
        return self

    def score(self, users: Any, user_vectors: Any = None) -> Any:
        return super().score(users, user_vectors) + 1e-3 * getattr(self, "popularity", 0.0)


@pytest.mark.parametrize(
    ("broken", "sentence"),
    [
        (Restless, "gave two different"),
        (Wide, "must be float32"),
        (Popular, "checkerboard is not solved"),
        (Hoarder, "user_vectors_ lacks something"),
        (Moody, "with its own vectors differs"),
        (Strict, "not numbers"),
        (Forgetful, "saved and loaded model scores differently"),
    ],
)
def test_a_broken_model_is_caught(broken: Callable[..., ALS], sentence: str) -> None:
    with pytest.raises(AssertionError, match=sentence):
        check_recommender(lambda: broken(embedding_size=6, epochs=5, device="cpu"))
