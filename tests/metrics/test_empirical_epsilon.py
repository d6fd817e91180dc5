from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logit

from recveil.core.errors import UsageError
from recveil.metrics.empirical_epsilon import MAX_EPSILON, bound_epsilon_below, estimate_epsilon
from recveil.metrics.gaussian_privacy import compute_epsilon
from recveil.metrics.roc import estimate_proportion


def draw_game(mu: float, n: int, seed: int) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Draw the scores of the best attack on a Gaussian release, and of an attack that knows nothing."""
    rng = np.random.default_rng(seed)
    member = rng.random(n) < 0.5
    return member, {"blind": rng.standard_normal(n), "best": rng.standard_normal(n) + mu * member}


def test_without_a_delta_the_bound_is_the_logit_of_clopper_and_pearson() -> None:
    share = estimate_proportion(90, 100, level=0.9)  # one-sided 95 %
    assert bound_epsilon_below(90, 100, n_users=500, delta=0) == pytest.approx(logit(share.low), abs=1e-6)
    with_delta = bound_epsilon_below(90, 100, n_users=500, delta=1e-5)
    assert logit(share.low) - 0.1 < with_delta < logit(share.low)


def test_the_lower_bound_stays_below_the_guarantee_and_finds_a_leak() -> None:
    upper = compute_epsilon(1e-5, 1.0)
    bounds = []
    for seed in range(20):
        member, scores = draw_game(1.0, 2_000, seed)
        bounds.append(estimate_epsilon(member, scores, delta=1e-5, rng=np.random.default_rng(seed)))
    assert max(bound.epsilon for bound in bounds) <= upper
    assert np.median([bound.epsilon for bound in bounds]) > 0.5
    assert {bound.attack for bound in bounds} == {"best"}


def test_no_leak_gives_zero_in_most_runs_and_a_full_leak_a_large_number() -> None:
    zeros = 0
    for seed in range(60):
        member, scores = draw_game(0.0, 400, seed)
        zeros += estimate_epsilon(member, scores, delta=1e-5, rng=np.random.default_rng(seed)).epsilon == 0
    assert zeros >= 54
    member, scores = draw_game(50.0, 2_000, 0)
    leak = estimate_epsilon(member, {"inverted": -scores["best"]}, delta=0, rng=np.random.default_rng(0))
    assert (leak.n_guesses, leak.epsilon > 5) == (leak.n_right, True)
    assert bound_epsilon_below(0, 0, n_users=10, delta=0) == 0.0
    assert bound_epsilon_below(10**6, 10**6, n_users=10**6, delta=0) < MAX_EPSILON


def test_numbers_that_do_not_fit_are_refused() -> None:
    with pytest.raises(UsageError, match="right"):
        bound_epsilon_below(5, 4, n_users=10, delta=0)
    with pytest.raises(UsageError, match="at least one"):
        estimate_epsilon(np.array([True, False]), {}, delta=0, rng=np.random.default_rng(0))
