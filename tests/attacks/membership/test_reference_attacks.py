"""LiRA and RMIA for users: rows by hand, what nothing is known of, and a difference that is there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from recveil.attacks.membership.likelihood import lira, rmia
from recveil.attacks.membership.reference_attacks import REFERENCED, RMIA, Evidence, LiRA
from recveil.core.errors import UsageError

USERS, MODELS = 60, 12


def evidence(gap: float, seed: int = 0, without: int = 0) -> tuple[Evidence, np.ndarray]:
    """Pairs of a level of their own; a model that had the user is `gap` higher. The last users have no pair."""
    rng = np.random.default_rng(seed)
    user = np.sort(rng.integers(0, USERS - without, 400))
    inside = rng.permuted(np.tile(np.arange(MODELS) < MODELS // 2, (USERS, 1)), axis=1)
    member = rng.permuted(np.arange(USERS) % 2 == 0)
    level = rng.normal(0, 2, len(user))
    signal = level[:, None] + gap * inside[user] + rng.standard_normal((len(user), MODELS))
    return Evidence(user, signal, level + gap * member[user] + rng.standard_normal(len(user)), inside), member


def test_rows_of_users_are_the_means_of_their_pairs() -> None:
    seen, _ = evidence(1.0, without=5)
    signal, inside, observed = seen.rows("user", np.exp)
    for row, u in enumerate(np.unique(seen.user)):
        np.testing.assert_allclose(signal[row], np.exp(seen.signal[seen.user == u]).mean(0))
        assert observed[row] == pytest.approx(np.exp(seen.observed[seen.user == u]).mean())
        assert inside[row].tolist() == seen.inside[u].tolist()


def test_pairs_are_judged_by_the_models_that_had_their_user_and_averaged() -> None:
    seen, _ = evidence(1.0)
    of_pairs = lira(seen.signal, seen.inside[seen.user], seen.observed, spread="row")
    scores = LiRA(level="pair", spread="row").score(seen)
    np.testing.assert_allclose(scores, [of_pairs[seen.user == u].mean() for u in range(USERS)])


def test_rmia_is_given_probabilities() -> None:
    seen, _ = evidence(1.0)
    chances = [np.log(1 / (1 + np.exp(-x))) for x in (seen.signal, seen.observed)]
    of_pairs = rmia(chances[0], seen.inside[seen.user], chances[1])
    np.testing.assert_allclose(
        RMIA(level="pair").score(seen), [of_pairs[seen.user == u].mean() for u in range(USERS)], atol=1e-9
    )


@pytest.mark.parametrize("level", ["user", "pair"])
@pytest.mark.parametrize("name", list(REFERENCED))
def test_members_are_found_and_nobody_where_there_is_no_difference(name: str, level: str) -> None:
    attack = REFERENCED[name](level=level)
    seen, member = evidence(1.5)
    assert roc_auc_score(member, attack.score(seen)) > 0.95
    areas = [roc_auc_score(member, attack.score(seen)) for seen, member in (evidence(0.0, seed) for seed in range(20))]
    assert abs(np.mean(areas) - 0.5) < 3 * np.sqrt(61 / (12 * 900 * 20))


@pytest.mark.parametrize("level", ["user", "pair"])
@pytest.mark.parametrize("name", list(REFERENCED))
def test_of_whom_nothing_is_known_nothing_is_said(name: str, level: str) -> None:
    attack = REFERENCED[name](level=level)
    scores = attack.score(evidence(1.0, without=7)[0])
    assert scores.shape == (USERS,)
    assert (scores[-7:] == attack.threshold).all()
    assert (scores[:-7] != attack.threshold).any()


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("lira", {"level": "pairs"}, "No level is called 'pairs'. Did you mean 'pair'"),
        ("rmia", {"level": "item"}, "No level is called 'item'"),
        ("lira", {"spread": "rows"}, "No spread is called 'rows'"),
        ("rmia", {"gamma": 0.0}, "gamma must be a positive number; got 0"),
    ],
)
def test_bad_options_are_said(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        REFERENCED[name](**options)
