"""Worlds of reference models whose answers are known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from recveil.attacks.membership.reference_rows import EvidenceRows
from recveil.core.types import ReferenceSignals, Watched


@dataclass(frozen=True)
class ReferenceWorld:
    """Users, their membership, and what reference models and the target say of them."""

    watched: Watched
    member: np.ndarray

    @property
    def signals(self) -> ReferenceSignals:
        assert self.watched.reference_signals is not None
        return self.watched.reference_signals


@pytest.fixture
def make_reference_world():
    """Make users whose pairs have a level of their own; a model that had the user is `gap` higher."""

    def make(gap: float, *, seed: int = 0, n_users: int = 60, n_models: int = 12, without_pairs: int = 0):
        rng = np.random.default_rng(seed)
        user = np.sort(rng.integers(0, n_users - without_pairs, 400))
        trained_on = rng.permuted(np.tile(np.arange(n_models) < n_models // 2, (n_users, 1)), axis=1)
        member = rng.permuted(np.arange(n_users) % 2 == 0)
        level = rng.normal(0, 2, len(user))
        reference = level[:, None] + gap * trained_on[user] + rng.standard_normal((len(user), n_models))
        target = level + gap * member[user] + rng.standard_normal(len(user))
        signals = ReferenceSignals(user, reference, target, trained_on, np.arange(n_users))
        lists = np.zeros((n_users, 1), dtype=np.int64)
        return ReferenceWorld(Watched([np.array([0])] * n_users, lists, reference_signals=signals), member)

    return make


@pytest.fixture
def make_gaussian_rows():
    """Make rows with a level of their own, the members among them, and the exact log likelihood ratio of each."""

    def make(n: int, n_models: int, gap: float, *, shift: float = 0.0):
        rng = np.random.default_rng(0)
        level = rng.normal(0, 3, n)
        inside = rng.permuted(np.arange(n_models) < n_models // 2, axis=None) & np.ones((n, 1), bool)
        inside = rng.permuted(inside, axis=1)
        signal = level[:, None] + gap * inside + rng.standard_normal((n, n_models))
        member = np.arange(n) % 2 == 0
        observed = level + gap * member + rng.standard_normal(n)
        exact = gap * (observed - level) - gap**2 / 2
        return EvidenceRows(signal + shift, inside, observed + shift), member, exact

    return make
