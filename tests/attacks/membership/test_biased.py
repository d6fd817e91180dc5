"""The biased attack finds a planted difference, finds nothing where nothing is, and says what it cannot do."""

from __future__ import annotations

import numpy as np
import pytest

from recveil.attacks.membership.biased import Biased
from recveil.core.errors import DataError, UsageError
from recveil.core.types import Shadow, Watched
from recveil.metrics.roc import auc


def world(n: int, near: float, seed: int, d: int = 6) -> Shadow:
    """Lists of members are drawn near their history with this probability, all others from the whole catalog."""
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
    found = auc(target.member, Biased(epochs=30).fit([shadow], rng=np.random.default_rng(0)).score(target.watched))
    assert found.low > 0.65  # half of the others are listed their own kind by chance: 0.75 at best


def test_nothing_is_found_where_nothing_is() -> None:
    found = [
        auc(target.member, Biased(epochs=20).fit([shadow], rng=np.random.default_rng(seed)).score(target.watched))
        for seed, shadow, target in ((s, world(200, 0.0, 2 * s), world(200, 0.0, 2 * s + 1)) for s in range(20))
    ]
    assert sum(e.low > 0.5 or e.high < 0.5 for e in found) <= 4


def test_users_are_not_learned_by_heart() -> None:
    """Without a leak nothing holds for users set aside, so an early pass is kept; the last would know its own users."""
    shadows = [world(100, 0.0, seed, d=30) for seed in range(5)]
    attack = Biased(epochs=60, batch_size=4)
    known = [auc(s.member, attack.fit([s], rng=np.random.default_rng(0)).score(s.watched)).value for s in shadows]
    assert np.median(known) < 0.8


def test_the_unit_of_item_vectors_does_not_matter_and_a_seed_is_a_seed() -> None:
    shadow = world(200, 1.0, 0)
    large = Shadow(
        Watched(shadow.watched.histories, shadow.watched.lists, 1000 * shadow.watched.item_vectors), shadow.member
    )
    first, again, scaled = (
        Biased(epochs=5).fit([s], rng=np.random.default_rng(1)).score(s.watched) for s in (shadow, shadow, large)
    )
    np.testing.assert_array_equal(first, again)
    np.testing.assert_allclose(first, scaled, atol=1e-3)


def test_a_flat_column_is_no_reason_to_break() -> None:
    shadow = world(100, 1.0, 0)
    shadow.watched.item_vectors[:, 2] = 5.0
    assert np.isfinite(Biased(epochs=2).fit([shadow], rng=np.random.default_rng(0)).score(shadow.watched)).all()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"epochs": 0}, "epochs is 0"),
        ({"batch_size": 0}, "batch_size is 0"),
        ({"learning_rate": 0.0}, "learning_rate is 0"),
        ({"momentum": 1.0}, "momentum is 1"),
    ],
)
def test_options_are_checked(options: dict[str, float], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        Biased(**options)


def test_tables_of_two_kinds_and_no_shadow_are_said() -> None:
    attack = Biased(epochs=1).fit([world(50, 1.0, 0)], rng=np.random.default_rng(0))
    with pytest.raises(DataError, match="have 4 numbers, those of the shadow 6"):
        attack.score(world(50, 1.0, 0, d=4).watched)
    with pytest.raises(UsageError, match="none were given"):
        Biased().fit([], rng=np.random.default_rng(0))
