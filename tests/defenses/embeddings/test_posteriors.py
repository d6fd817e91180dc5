"""Posteriors: scores rank the classes of users that they were not learned from, and only those who disclosed teach."""

from __future__ import annotations

import numpy as np
from scipy.stats import rankdata

from recveil.defenses.embeddings.posteriors import fit_posterior


def test_scores_rank_disclosed_and_undisclosed_users_alike() -> None:
    rng = np.random.default_rng(0)
    codes = rng.integers(2, size=1_200)
    x = rng.standard_normal((1_200, 4)) + 1.5 * np.eye(2, 4)[codes]
    shown = np.where(np.arange(1_200) < 600, codes, -1)
    fitted = fit_posterior(x, shown, rng)
    assert fitted is not None
    assert fitted.scores.shape == (1_200, 1)
    for rows in (slice(0, 600), slice(600, None)):
        ranks = rankdata(fitted.scores[rows, 0])[codes[rows] == 1].mean() / 600
        assert abs(ranks - 0.5) > 0.15
    np.testing.assert_allclose(x[600:] @ fitted.weights + fitted.offsets, fitted.scores[600:])


def test_noise_has_no_score_of_its_own_class() -> None:
    rng = np.random.default_rng(1)
    codes = rng.integers(2, size=400)
    fitted = fit_posterior(rng.standard_normal((400, 30)), codes, rng)
    assert fitted is not None
    assert abs(np.corrcoef(fitted.scores[:, 0], codes)[0, 1]) < 0.15  # without cross-fitting it would be about 0.3


def test_three_classes_have_two_scores() -> None:
    rng = np.random.default_rng(2)
    codes = rng.integers(3, size=600)
    fitted = fit_posterior(rng.standard_normal((600, 4)) + 2 * np.eye(3, 4)[codes], codes, rng)
    assert fitted is not None
    assert fitted.scores.shape[1] == 2


def test_classes_of_one_user_teach_nothing() -> None:
    assert fit_posterior(np.ones((5, 2)), np.array([0, 0, 0, 1, -1]), np.random.default_rng(0)) is None


def test_evidence_is_rare_among_random_classes_and_large_where_vectors_differ() -> None:
    def weigh(seed: int, shift: float) -> float:
        rng = np.random.default_rng(seed)
        codes = rng.integers(2, size=300)
        fitted = fit_posterior(rng.standard_normal((300, 10)) + shift * np.eye(2, 10)[codes], codes, rng)
        assert fitted is not None
        return fitted.evidence

    assert np.mean([weigh(seed, 0.0) > 1.645 for seed in range(40)]) < 0.15
    assert min(weigh(seed, 1.0) for seed in range(3)) > 4
