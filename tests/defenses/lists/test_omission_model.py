"""The model finds the probabilities that pairs were drawn with, and draws scatter by their standard errors."""

from __future__ import annotations

import numpy as np
import pytest

from recveil.defenses.lists.omission_model import OmissionModel, RankedPairs, fit_omission_model, mark_places


def test_places_are_wider_further_down() -> None:
    places = mark_places(100)
    sizes = np.bincount(places)[np.unique(places)]
    assert places[0] == 0
    assert (np.diff(places) >= 0).all()
    assert sizes[0] == 1
    assert sizes[-2] > 10


@pytest.fixture(scope="module")
def fitted() -> tuple[OmissionModel, np.ndarray]:
    """A model of two classes and ten items, from 40,000 pairs, and the true probabilities."""
    rng = np.random.default_rng(0)
    true = rng.uniform(0.2, 0.8, size=(2, 10))
    codes, items = rng.integers(2, size=40_000), rng.integers(10, size=40_000)
    is_seen, nothing = rng.random(40_000) < true[codes, items], np.zeros((40_000, 0))
    pairs = RankedPairs(codes, np.zeros(40_000, np.int64), items, is_seen, nothing)
    return fit_omission_model(pairs, OmissionModel.start(2, 1, 10)), true


def test_probabilities_are_found(fitted: tuple[OmissionModel, np.ndarray]) -> None:
    model, true = fitted
    np.testing.assert_allclose(model.predict(0, np.arange(10)), true, atol=0.04)  # 4 standard errors


def test_draws_scatter_about_the_estimate_by_its_standard_error(fitted: tuple[OmissionModel, np.ndarray]) -> None:
    model, _ = fitted
    rng = np.random.default_rng(1)
    draws = np.stack([model.draw(rng).class_item for _ in range(400)])
    np.testing.assert_allclose(draws.std(0) * np.sqrt(model.precision), 1, atol=0.2)
    np.testing.assert_allclose((draws.mean(0) - model.class_item) * np.sqrt(model.precision), 0, atol=0.25)


def test_slopes_of_features_are_found_for_each_class() -> None:
    rng = np.random.default_rng(2)
    codes, features = rng.integers(2, size=40_000), rng.standard_normal((40_000, 2))
    true = np.array([[1.0, 0.0], [0.4, -0.7]])
    log_odds = (features * true[codes]).sum(1)
    is_seen, nothing = rng.random(40_000) < 1 / (1 + np.exp(-log_odds)), np.zeros(40_000, np.int64)
    model = fit_omission_model(
        RankedPairs(codes, nothing, nothing, is_seen, features), OmissionModel.start(2, 1, 1, n_features=2)
    )
    np.testing.assert_allclose(model.slope, true, atol=0.08)  # 4 standard errors
    predicted = model.predict(0, np.zeros(3, np.int64), np.ones((2, 3, 2)))
    np.testing.assert_allclose(predicted[:, 0], 1 / (1 + np.exp(-true.sum(1))), atol=0.03)
