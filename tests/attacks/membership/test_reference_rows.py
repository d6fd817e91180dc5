"""Evidence of reference models: rows of users by hand, and facts that hold for every attack that uses them."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from recveil.attacks.membership import MEMBERSHIP_ATTACKS
from recveil.attacks.membership.reference_rows import EvidenceRows, build_rows
from recveil.core.errors import DataError

ATTACKS = [traits.name for traits in MEMBERSHIP_ATTACKS.all_traits() if traits.needs_references]
every_attack = pytest.mark.parametrize("name", ATTACKS)
every_level = pytest.mark.parametrize("level", ["user", "pair"])


def test_rows_of_users_are_the_means_of_their_transformed_pairs(make_reference_world) -> None:
    signals = make_reference_world(1.0, without_pairs=5).signals
    rows = build_rows(signals, "user", np.exp)
    for row, user in enumerate(np.unique(signals.user)):
        own = signals.user == user
        np.testing.assert_allclose(rows.signal[row], np.exp(signals.reference[own]).mean(0))
        assert rows.observed[row] == pytest.approx(np.exp(signals.target[own]).mean())
        assert rows.inside[row].tolist() == signals.trained_on[user].tolist()


@every_level
@every_attack
def test_members_are_found_and_nobody_without_a_difference(name: str, level: str, make_reference_world) -> None:
    attack = MEMBERSHIP_ATTACKS.make(name, level=level)
    world = make_reference_world(1.5)
    assert roc_auc_score(world.member, attack.score(world.watched)) > 0.95
    worlds = [make_reference_world(0.0, seed=seed) for seed in range(20)]
    areas = [roc_auc_score(world.member, attack.score(world.watched)) for world in worlds]
    assert abs(np.mean(areas) - 0.5) < 3 * np.sqrt(61 / (12 * 900 * 20))


@every_level
@every_attack
def test_users_without_evidence_get_the_neutral_score(name: str, level: str, make_reference_world) -> None:
    attack = MEMBERSHIP_ATTACKS.make(name, level=level)
    scores = attack.score(make_reference_world(1.0, without_pairs=7).watched)
    assert scores.shape == (60,)
    assert (scores[-7:] == attack.threshold).all()
    assert (scores[:-7] != attack.threshold).any()


@every_attack
def test_users_that_are_not_scored_are_still_compared_with(name: str, make_reference_world) -> None:
    watched, users = make_reference_world(1.0).watched, np.array([3, 50, 7])
    attack = MEMBERSHIP_ATTACKS.make(name)
    np.testing.assert_array_equal(attack.score(watched.take(users)), attack.score(watched)[users])


def test_rows_of_different_shapes_or_without_numbers_are_refused(make_gaussian_rows) -> None:
    rows, _, _ = make_gaussian_rows(5, 8, 1.0)
    with pytest.raises(DataError, match=r"shape \(5, 8\).*need \(n, R\)"):
        EvidenceRows(rows.signal, rows.inside[:, :3], rows.observed)
    with pytest.raises(DataError, match="finite"):
        EvidenceRows(np.where(rows.inside, np.nan, rows.signal), rows.inside, rows.observed)
