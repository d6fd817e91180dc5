"""Power statements against simulation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from recveil.metrics.intervals import estimate_corrected_mean
from recveil.metrics.power import allow_for_learning, compute_advantage_error, compute_detection_threshold


@pytest.mark.thorough
@pytest.mark.parametrize(("folds", "seeds"), [(5, 1), (5, 2), (10, 1)])
def test_a_mean_at_the_threshold_is_detected_with_the_stated_power(folds: int, seeds: int) -> None:
    """Folds are independent; further deals of the same users repeat their mean with other noise within."""
    rng = np.random.default_rng(0)
    share = 1 / (folds - 1)
    shift = compute_detection_threshold(folds, seeds, share) / np.sqrt(folds)  # in units of the spread of one fold
    seen = 0
    for _ in range(2000):
        scores = rng.normal(size=(seeds, folds))
        scores += rng.normal() / np.sqrt(folds) - scores.mean(1, keepdims=True)  # every deal has the same users
        seen += estimate_corrected_mean(shift + scores.ravel(), share, 100).low > 0
    assert seen / 2000 == pytest.approx(0.95, abs=0.02)


def test_the_error_of_an_advantage_is_that_of_its_guesses() -> None:
    rng = np.random.default_rng(1)
    counts, size = (300, 600), 0.2
    right = [rng.binomial(n, (1 + size) / 2, 20_000) / n for n in counts]
    found = 2 * np.mean(right, axis=0) - 1
    # At chance and above the spread is bounded by that of a fair coin, which is what is said.
    assert found.std() <= compute_advantage_error(size, counts) == pytest.approx(found.std(), rel=0.05)


def test_learning_costs_what_a_linear_discriminant_loses() -> None:
    rng = np.random.default_rng(2)
    d, n, distance = 20, 100, 1.0
    best = 2 * stats.norm.cdf(distance / 2) - 1
    shift = distance * np.eye(d)[0]
    reached = []
    for _ in range(400):
        w = (rng.normal(size=(n, d)) + shift).mean(0) - rng.normal(size=(n, d)).mean(0)
        reached.append(2 * stats.norm.cdf(w @ shift / np.linalg.norm(w) / 2) - 1)
    assert allow_for_learning(float(np.mean(reached)), (n, n), d) == pytest.approx(best, rel=0.05)


def test_a_full_leak_stays_one_and_more_users_cost_less() -> None:
    assert allow_for_learning(1.2, (10, 10), 5) == 1.0
    assert allow_for_learning(0.1, (1e9, 1e9), 5) == pytest.approx(0.1)
    assert allow_for_learning(0.1, (100, 100), 5) > allow_for_learning(0.1, (1000, 1000), 5) > 0.1
