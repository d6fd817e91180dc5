from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from recveil.metrics.gaussian_privacy import compose_mu
from recveil.models.dp_als import SENSITIVITY, ItemSums, PrivateALS, clip_norms, sum_item_statistics
from recveil.models.private_release import resolve_budget, scale_rows
from recveil.testing.contracts_models import check_recommender
from recveil.testing.worlds import make_checkerboard


def test_the_contract() -> None:
    check_recommender(
        lambda: PrivateALS(epsilon=20_000.0, noise_seed=0, embedding_size=4, rounds=4, item_reg=0.05, weight=0.3)
    )


def stack(sums: ItemSums) -> np.ndarray:
    return np.concatenate([part.ravel() for part in (sums.products, sums.vectors, sums.total)])


def test_one_user_changes_the_sums_by_no_more_than_claimed() -> None:
    rng, worst = np.random.default_rng(0), 0.0
    for _ in range(200):
        dense = rng.random((6, 9)) * (rng.random((6, 9)) < rng.random())
        rows, users = scale_rows(sparse.csr_array(dense)), clip_norms(rng.standard_normal((6, 3)) * rng.random() * 5)
        change = stack(sum_item_statistics(rows, users)) - stack(sum_item_statistics(rows[:5], users[:5]))
        worst = max(worst, float(np.linalg.norm(change)))
    assert 0.99 * SENSITIVITY < worst <= SENSITIVITY + 1e-9


def test_all_rounds_together_keep_the_budget() -> None:
    model = PrivateALS(epsilon=1_000.0, noise_seed=0, rounds=3).fit(make_checkerboard(), rng=np.random.default_rng(0))
    assert model.guarantee_ is not None
    releases = model.guarantee_.releases
    assert len(releases) == 5
    mu = compose_mu(release.sensitivity / release.noise for release in releases)
    assert mu == pytest.approx(resolve_budget(1_000.0, None, 1e-5).mu)


def test_noise_does_not_make_the_items_explode() -> None:
    sums = sum_item_statistics(scale_rows(sparse.csr_array(np.eye(4))), np.eye(4)[:, :3])
    noisy = sums.add_noise(50.0, np.random.default_rng(0))
    assert np.abs(noisy.solve_items(0.3, 50.0)).max() <= np.abs(noisy.vectors).sum(1).max() / 50.0 + 1e-9
