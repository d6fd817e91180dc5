"""The biased attack finds a planted difference, and nothing where there is none."""

from __future__ import annotations

import numpy as np
import pytest

from recveil.attacks.membership import biased
from recveil.attacks.membership.biased import Biased
from recveil.core.errors import DataError, UsageError
from recveil.core.types import Shadow, Watched
from recveil.metrics.roc import estimate_auc


def world(n: int, near: float, seed: int, d: int = 6) -> Shadow:
    """Lists of members are drawn near their history with this probability, all other lists from the whole catalog."""
    rng = np.random.default_rng(seed)
    member = rng.permutation(np.arange(n) % 2 == 0)
    vectors = np.random.default_rng(99).standard_normal((60, d))  # one catalog for all worlds
    vectors[:30, 0] += 3  # two kinds of items
    kind = rng.integers(0, 2, n)
    histories = [rng.choice(30, 10, replace=False) + 30 * k for k in kind]
    knows = (rng.random(n) < near) & member
    shown = np.where(knows, kind, rng.integers(0, 2, n))
    lists = [rng.choice(30, 8, replace=False) + 30 * k for k in shown]
    return Shadow(Watched(histories, np.array(lists), vectors), member)


def test_a_planted_difference_is_found() -> None:
    shadow, target = world(400, 1.0, 0), world(400, 1.0, 1)
    found = estimate_auc(
        target.member, Biased(epochs=30).fit([shadow], rng=np.random.default_rng(0)).score(target.watched)
    )
    assert found.low > 0.65  # half of the non-members are listed their own kind by chance: 0.75 at best


@pytest.mark.thorough
def test_nothing_is_found_without_a_difference() -> None:
    found = [
        estimate_auc(
            target.member, Biased(epochs=20).fit([shadow], rng=np.random.default_rng(seed)).score(target.watched)
        )
        for seed, shadow, target in ((s, world(200, 0.0, 2 * s), world(200, 0.0, 2 * s + 1)) for s in range(20))
    ]
    assert sum(e.low > 0.5 or e.high < 0.5 for e in found) <= 4


@pytest.mark.thorough
def test_users_are_not_memorized(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a leak nothing generalizes to held-out users, so an early epoch is chosen; the last has memorized."""
    shadows = [world(60, 0.0, seed, d=30) for seed in range(5)]
    attack = Biased(epochs=40, batch_size=8, learning_rate=0.05)

    def median_auc() -> float:
        fits = ((s, attack.fit([s], rng=np.random.default_rng(0)).score(s.watched)) for s in shadows)
        return float(np.median([estimate_auc(s.member, score).value for s, score in fits]))

    assert median_auc() < 0.8
    monkeypatch.setattr(biased, "HOLDOUT_DIVISOR", 10**9)  # nobody is held out, so the last epoch is taken
    assert median_auc() > 0.95


def test_scores_depend_on_the_seed_and_not_on_the_unit_of_item_vectors() -> None:
    shadow = world(200, 1.0, 0)
    large = Shadow(
        Watched(shadow.watched.histories, shadow.watched.lists, 1000 * shadow.watched.item_vectors), shadow.member
    )
    first, again, scaled = (
        Biased(epochs=5).fit([s], rng=np.random.default_rng(1)).score(s.watched) for s in (shadow, shadow, large)
    )
    np.testing.assert_array_equal(first, again)
    np.testing.assert_allclose(first, scaled, atol=1e-3)


def test_a_constant_column_is_ignored() -> None:
    shadow = world(100, 1.0, 0)
    shadow.watched.item_vectors[:, 2] = 5.0
    assert np.isfinite(Biased(epochs=2).fit([shadow], rng=np.random.default_rng(0)).score(shadow.watched)).all()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"epochs": 0}, "'epochs' of Biased is 0"),
        ({"batch_size": 0}, "'batch_size' of Biased is 0"),
        ({"learning_rate": 0.0}, "'learning_rate' of Biased is 0"),
        ({"momentum": 1.0}, "'momentum' of Biased is 1"),
    ],
)
def test_bad_options_are_refused(options: dict[str, float], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        Biased(**options)


def test_tables_of_two_sizes_and_missing_shadows_are_refused() -> None:
    attack = Biased(epochs=1).fit([world(50, 1.0, 0)], rng=np.random.default_rng(0))
    with pytest.raises(DataError, match="have 4 numbers, those of the shadow 6"):
        attack.score(world(50, 1.0, 0, d=4).watched)
    with pytest.raises(UsageError, match="none were given"):
        Biased().fit([], rng=np.random.default_rng(0))
