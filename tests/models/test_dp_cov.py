from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from recveil.metrics.ranking import collect_seen_items
from recveil.models.dp_cov import PrivateCovariance, compute_item_gram, estimate_directions
from recveil.models.private_release import add_symmetric_noise, scale_rows
from recveil.testing.contracts_models import check_recommender
from recveil.testing.worlds import make_checkerboard


def test_the_contract() -> None:
    check_recommender(lambda: PrivateCovariance(epsilon=2_000.0, noise_seed=0))


def test_one_user_changes_the_matrix_by_one_at_most() -> None:
    rng, worst = np.random.default_rng(0), 0.0
    for _ in range(200):
        dense = rng.random((6, 9)) * (rng.random((6, 9)) < rng.random())
        rows = scale_rows(sparse.csr_array(dense))
        change = compute_item_gram(rows) - compute_item_gram(rows[:5])
        worst = max(worst, float(np.linalg.norm(change)))
    assert 0.99 < worst <= 1 + 1e-9


def test_without_noise_it_is_the_svd_of_the_scaled_rows() -> None:
    split = make_checkerboard()
    model = PrivateCovariance(noise=0.0, reg=0.0, embedding_size=6).fit(split, rng=np.random.default_rng(0))
    rows = scale_rows(collect_seen_items(split.train)).toarray()
    _, _, right = np.linalg.svd(rows)
    best = rows @ right[:6].T @ right[:6]
    assert np.allclose(model.score(np.arange(len(rows))), best, atol=1e-5)


def test_directions_are_shrunk_by_their_cosine_and_noise_has_none() -> None:
    rng = np.random.default_rng(0)
    truth = np.linalg.qr(rng.standard_normal((200, 2)))[0]
    noisy = add_symmetric_noise(60 * truth @ truth.T, 2.0, rng)
    vectors = estimate_directions(noisy, 2.0, max_directions=50, reg=0.0)
    assert vectors.shape == (200, 2)
    cosines = np.linalg.norm(truth.T @ (vectors / np.linalg.norm(vectors, axis=0)), axis=0) ** 2
    assert (vectors**2).sum(0) == pytest.approx(cosines, abs=0.05)
    only_noise = add_symmetric_noise(np.zeros((200, 200)), 2.0, rng)
    assert estimate_directions(only_noise, 2.2, max_directions=50, reg=0.0).shape == (200, 0)


def test_where_all_is_noise_items_are_ranked_by_popularity(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recveil.models.dp_cov.estimate_directions", lambda gram, *_, **__: np.zeros((len(gram), 0)))
    split = make_checkerboard()
    model = PrivateCovariance(epsilon=2_000.0, noise_seed=1).fit(split, rng=np.random.default_rng(0))
    order = model.score(np.arange(3)).argsort(1)
    assert (order == order[0]).all()
    assert model.released_items_[model.popular_items_[0]] == order[0, -1]
