from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import optimize, sparse

from recveil.core.types import Dataset, Split
from recveil.metrics.empirical_epsilon import estimate_epsilon
from recveil.metrics.gaussian_privacy import bound_attack_auc, calibrate_mu
from recveil.metrics.ranking import collect_seen_items
from recveil.metrics.roc import estimate_auc
from recveil.models.dp_cov import (
    PrivateCovariance,
    compute_residual_gram,
    estimate_directions,
)
from recveil.models.private_release import add_symmetric_noise, scale_rows
from recveil.testing.contracts_models import check_recommender
from recveil.testing.worlds import make_checkerboard


def test_the_contract() -> None:
    check_recommender(lambda: PrivateCovariance(epsilon=2_000.0, noise_seed=0))


def test_one_user_changes_the_matrix_by_one_at_most() -> None:
    rng, worst = np.random.default_rng(0), 0.0
    for _ in range(200):
        dense = rng.random((6, 60)) * (rng.random((6, 60)) < rng.random())
        rows, direction = scale_rows(sparse.csr_array(dense)), rng.random(60)
        direction /= np.linalg.norm(direction)
        change = compute_residual_gram(rows, direction, 20) - compute_residual_gram(rows[:5], direction, 20)
        worst = max(worst, float(np.linalg.norm(change)))
    assert 0.99 < worst <= 1 + 1e-9


def test_the_worst_user_by_search_changes_the_matrix_by_no_more_than_claimed() -> None:
    direction = np.full(40, 1 / np.sqrt(40))

    def measure_change(row: np.ndarray) -> float:
        user = scale_rows(sparse.csr_array(np.abs(row).repeat(10)[None]))
        return float(np.linalg.norm(compute_residual_gram(user, direction, 20)))

    starts = np.random.default_rng(0).random((10, 4))
    found = [optimize.minimize(lambda row: -measure_change(row), start, method="Nelder-Mead") for start in starts]
    assert max(-result.fun for result in found) == pytest.approx(1.0, abs=1e-6)
    assert measure_change(np.ones(4)) == 0.0  # the row lies in the direction


def test_the_residual_gram_is_that_of_the_projected_rows() -> None:
    rng = np.random.default_rng(0)
    rows, direction = scale_rows(sparse.csr_array(1 + rng.random((6, 30)))), np.eye(30)[2]
    left = rows.toarray() * (np.arange(30) != 2)
    left /= np.linalg.norm(left, axis=1, keepdims=True)
    assert np.allclose(compute_residual_gram(rows, direction, 20), left.T @ left)


def test_a_row_of_few_items_counts_less() -> None:
    rows = scale_rows(sparse.csr_array(np.tri(40)[[0, 9, 19, 39]]))
    norms = [np.linalg.norm(compute_residual_gram(rows[[user]], np.eye(41)[40, :40], 20)) for user in range(4)]
    assert norms == pytest.approx([0.05, 0.5, 1, 1])


def test_without_noise_it_keeps_popularity_and_the_leading_directions_of_co_occurrence() -> None:
    split = make_checkerboard()
    model = PrivateCovariance(noise=0.0, reg=0.0, embedding_size=4, recency=0.0).fit(
        split, rng=np.random.default_rng(0)
    )
    rows = scale_rows(collect_seen_items(split.train)).toarray()
    popular = rows.sum(0) / np.linalg.norm(rows.sum(0))
    left = rows - np.outer(rows @ popular, popular)
    left /= np.linalg.norm(left, axis=1, keepdims=True)
    together = left.T @ left
    np.fill_diagonal(together, 0.0)
    values, vectors = np.linalg.eigh(together)
    kept = np.vstack([popular, vectors[:, -3:].T[values[-3:] > 0]])
    assert np.allclose(model.score(np.arange(len(rows))), rows @ kept.T @ kept, atol=1e-5)


def test_short_histories_do_not_drown_what_goes_together() -> None:
    rng = np.random.default_rng(0)
    group = rng.integers(0, 2, 3_000)
    pairs = np.array([rng.choice(10, 2, replace=False) for _ in group]) + 10 * group[:, None]
    user, item = np.repeat(np.arange(3_000), 2), pairs.ravel()
    train = Dataset("pairs", user, item, np.arange(6_000), np.arange(3_000), np.arange(20))
    empty = train.take(np.empty(0, dtype=np.int64))
    model = PrivateCovariance(epsilon=20.0, noise_seed=0).fit(Split(train, empty, empty), rng=rng)
    scores = model.score(np.arange(3_000))
    is_own = (np.arange(20) // 10)[None, :] == group[:, None]
    assert scores[is_own].mean() > 2 * scores[~is_own].mean()


def test_strong_directions_are_kept_with_their_weight_and_noise_counts_little() -> None:
    rng = np.random.default_rng(0)
    truth = np.linalg.qr(rng.standard_normal((200, 2)))[0]
    noisy = add_symmetric_noise(90 * truth @ truth.T, 2.0, rng)
    vectors = estimate_directions(noisy, 2.0, max_directions=50, reg=0.0)
    weights = (vectors**2).sum(0)
    assert np.linalg.norm(truth.T @ (vectors[:, :2] / np.sqrt(weights[:2])), axis=0).min() > 0.95
    assert weights[:2].min() > 0.8
    radius = 2.0 * np.sqrt(100)
    assert weights[2:].max() <= 2 * radius / (2 * radius + radius) + 0.02
    only_noise = add_symmetric_noise(np.zeros((200, 200)), 2.0, rng)
    assert estimate_directions(only_noise, 3.2, max_directions=50, reg=0.0).shape == (200, 0)


def test_where_all_is_noise_items_are_ranked_by_popularity(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recveil.models.dp_cov.estimate_directions", lambda gram, *_, **__: np.zeros((len(gram), 0)))
    split = make_checkerboard()
    model = PrivateCovariance(epsilon=2_000.0, noise_seed=1).fit(split, rng=np.random.default_rng(0))
    order = model.score(np.arange(3)).argsort(1)
    assert (order == order[0]).all()
    assert model.released_items_[model.popular_items_[0]] == order[0, -1]


def attack_canary(n_trials: int, **options: float) -> tuple[np.ndarray, np.ndarray]:
    """Train models with and without a user who alone connects the two groups, and look for the connection."""
    split = make_checkerboard(copies=25)
    train, first, second = split.train, 0, 12
    n = train.n_users
    user, item = (np.append(old, new) for old, new in ((train.user, [n, n]), (train.item, [first, second])))
    time, ids = np.append(train.time, [0, 1]), np.arange(n + 1)
    member = np.arange(n_trials) % 2 == 0
    scores = np.empty(n_trials)
    for trial in range(n_trials):
        rows = slice(None) if member[trial] else slice(len(train))
        part = replace(train, user=user[rows], item=item[rows], time=time[rows], user_ids=ids, attributes={})
        model = PrivateCovariance(noise_seed=trial, reg=0.0, **options)  # type: ignore[arg-type]
        model.fit(replace(split, train=part), rng=np.random.default_rng(trial))
        vector = model.fold_in([np.array([first])])
        scores[trial] = model.score(np.array([0]), vector)[0, second]
    return member, scores


@pytest.mark.thorough
def test_a_canary_is_found_without_noise_and_not_with_it() -> None:
    member, scores = attack_canary(24, noise=0.0, embedding_size=12)
    assert estimate_auc(member, scores).value == 1.0
    member, scores = attack_canary(100, epsilon=2.0)
    auc, upper = estimate_auc(member, scores), bound_attack_auc(calibrate_mu(2.0, 1e-5))
    assert auc.low <= upper
    proved = estimate_epsilon(member, {"canary": scores}, delta=1e-5, rng=np.random.default_rng(0)).epsilon
    assert proved <= 2.0
    assert not auc.low > 0.5 + 0.1
