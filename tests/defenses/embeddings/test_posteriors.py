"""Posteriors: scores rank the classes of users that they were not learned from, and only those who disclosed teach."""

from __future__ import annotations

import numpy as np
from scipy.stats import rankdata

from recveil.defenses.embeddings.posteriors import fit_posterior


def test_scores_rank_disclosed_and_undisclosed_users_alike() -> None:
    rng = np.random.default_rng(0)
    codes = rng.integers(2, size=1_200)
    x = rng.standard_normal((1_200, 4)) + 1.5 * np.eye(2, 4)[codes]
    fitted = fit_posterior(x, np.where(np.arange(1_200) < 600, codes, -1), rng)
    assert fitted is not None
    scores = x @ fitted.weights + fitted.offsets
    assert scores.shape == (1_200, 1)
    for rows in (slice(0, 600), slice(600, None)):
        ranks = rankdata(scores[rows, 0])[codes[rows] == 1].mean() / 600
        assert abs(ranks - 0.5) > 0.15
    np.testing.assert_allclose(scores.mean(0), 0, atol=1e-9)


def test_three_classes_have_two_scores() -> None:
    rng = np.random.default_rng(2)
    codes = rng.integers(3, size=600)
    fitted = fit_posterior(rng.standard_normal((600, 4)) + 2 * np.eye(3, 4)[codes], codes, rng)
    assert fitted is not None
    assert fitted.weights.shape == (4, 2)


def test_classes_of_one_user_teach_nothing() -> None:
    assert fit_posterior(np.ones((5, 2)), np.array([0, 0, 0, 1, -1]), np.random.default_rng(0)) is None


def test_random_classes_rarely_have_a_score_and_classes_that_differ_always_do() -> None:
    def has_score(seed: int, shift: float) -> bool:
        rng = np.random.default_rng(seed)
        codes = rng.integers(2, size=300)
        return fit_posterior(rng.standard_normal((300, 10)) + shift * np.eye(2, 10)[codes], codes, rng) is not None

    assert np.mean([has_score(seed, 0.0) for seed in range(40)]) < 0.15
    assert all(has_score(seed, 1.0) for seed in range(3))


def test_axes_that_tell_nothing_are_left_out() -> None:
    rng = np.random.default_rng(3)
    codes = rng.integers(6, size=3_000)
    x = rng.standard_normal((3_000, 8))
    x[:, 0] += 2 * (codes < 3)  # one direction tells one half of the classes from the other
    fitted = fit_posterior(x, codes, rng)
    assert fitted is not None
    assert fitted.weights.shape[1] < 4
