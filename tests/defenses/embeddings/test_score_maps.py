"""Score maps: moments are equal at every score, maps are continuous, parts that do not fit are told."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from recveil.defenses.embeddings.score_maps import ScoreFeatures, ScoreMap, fit_turn


@pytest.fixture
def rows() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    s = rng.standard_normal(4_000)
    return rng.standard_normal((4_000, 3)) * np.exp(0.4 * s)[:, None] + np.outer(np.tanh(s), [1, 2, 0]), s


def test_moments_no_longer_depend_on_the_score(rows: tuple[np.ndarray, np.ndarray]) -> None:
    z, s = rows
    turn = fit_turn(z, s)
    assert turn is not None
    out, groups = turn.apply(z, s), np.digitize(s, [-0.7, 0, 0.7])
    before, after = (np.ptp([x[groups == g].mean(0) for g in range(4)], axis=0).max() for x in (z, out))
    assert after < 0.1 * before
    spreads = np.stack([out[groups == g].std(0) for g in range(4)])
    unequal = [z[groups == g].std() for g in range(4)]
    assert (spreads.max(0) / spreads.min(0)).max() < 1.25 < max(unequal) / min(unequal)


def test_products_are_uncorrelated_with_the_score_even_where_covariances_are_not_equal_at_every_score() -> None:
    rng = np.random.default_rng(1)
    s = rng.uniform(-1, 1, 4_000)
    z = rng.standard_normal((4_000, 3))
    z[:, 0] *= np.exp(s)
    z[:, 1] += 0.8 * s * z[:, 2]
    z[:, 2] *= 1 + 2 * s**2  # as wide at both ends: tells nothing of the side
    turn = fit_turn(z, s)
    assert turn is not None
    means = replace(turn, A=np.stack([np.eye(3)] * len(turn.A)))

    def correlate_products(x: np.ndarray) -> float:
        products = [x[:, i] * x[:, j] for i in range(3) for j in range(i, 3)]
        return max(abs(np.corrcoef(product, s)[0, 1]) for product in products)

    assert correlate_products(turn.apply(z, s)) < 0.02 < 0.3 < correlate_products(means.apply(z, s))
    widths = [turn.apply(z, s)[rows, 2].std() for rows in (np.abs(s) > 0.8, np.abs(s) < 0.2)]
    assert widths[0] > 1.5 * widths[1]  # left alone, which costs nothing


def test_the_map_is_continuous_in_the_score(rows: tuple[np.ndarray, np.ndarray]) -> None:
    turn = fit_turn(*rows)
    assert turn is not None
    s = np.linspace(-4, 4, 2_001)
    assert np.abs(np.diff(turn.apply(np.ones((2_001, 3)), s), axis=0)).max() < 0.05


def test_equal_scores_make_no_map(rows: tuple[np.ndarray, np.ndarray]) -> None:
    assert fit_turn(rows[0], np.ones(4_000)) is None


def test_parts_that_do_not_fit_together_are_told(rows: tuple[np.ndarray, np.ndarray]) -> None:
    z, s = rows
    turn = fit_turn(np.hstack([z, z[:, :1]]), s)
    assert turn is not None
    features = ScoreFeatures.fit(z, 5, np.random.default_rng(0))
    ours = ScoreMap.from_turns(features, np.zeros((12, 1)), np.zeros(1), [turn])
    assert ours.has_shape(0, 3)
    assert not ours.has_shape(0, 4)
    assert not replace(ours, weights=ours.weights[:-1]).has_shape(0, 3)
    assert ScoreMap.from_tensors(**ours.to_tensors()).has_shape(0, 3)
    assert ours(torch.from_numpy(z), torch.zeros(0)).shape == z.shape


def test_rows_are_carried_by_the_scores_that_the_map_was_fitted_to(rows: tuple[np.ndarray, np.ndarray]) -> None:
    z, _ = rows
    rng = np.random.default_rng(2)
    features = ScoreFeatures.fit(z, 50, rng)
    known, weights = features.compute(z), rng.standard_normal((57, 1))
    scores = (known @ weights)[:, 0]
    turn = fit_turn(features.polar.encode(z), scores)
    assert turn is not None
    expected = features.polar.decode(turn.apply(features.polar.encode(z), scores))
    ours = ScoreMap.from_turns(features, weights, np.zeros(1), [turn])
    np.testing.assert_allclose(ours.carry_rows(z), expected, atol=1e-3 * np.abs(z).max())  # in single precision
    np.testing.assert_allclose(ours.carry_rows(z.astype(np.float32)), expected, atol=1e-3 * np.abs(z).max())


@pytest.mark.parametrize("n_scores", [1, 2])
def test_scores_are_weighted_sums_of_the_features(rows: tuple[np.ndarray, np.ndarray], n_scores: int) -> None:
    z, s = rows
    rng = np.random.default_rng(3)
    features = ScoreFeatures.fit(z, 40, rng)
    weights, offsets = rng.standard_normal((47, n_scores)), rng.standard_normal(n_scores)
    turn = fit_turn(features.polar.encode(z), s)
    assert turn is not None
    ours = ScoreMap.from_turns(features, weights, offsets, [turn])
    known = features.compute(z) @ weights + offsets
    np.testing.assert_allclose(ours._compute_scores(features.polar.encode(z), z), known, atol=1e-4)


def test_rows_are_carried_in_place_where_that_is_asked_for(rows: tuple[np.ndarray, np.ndarray]) -> None:
    z, s = rows
    turn = fit_turn(z, s)
    assert turn is not None
    expected, here = turn.apply(z, s), z.copy()
    assert turn.apply(here, s, out=here) is here
    np.testing.assert_array_equal(here, expected)
    assert np.abs(expected - z).max() > 0.1
