from __future__ import annotations

import math

import numpy as np
import pytest

from oracles.gaussian_privacy import count_wins, integrate_delta
from recveil.core.errors import UsageError
from recveil.metrics.gaussian_privacy import (
    bound_attack_auc,
    bound_attack_tpr,
    calibrate_mu,
    compose_mu,
    compute_delta,
    compute_epsilon,
)

PLD_EPSILONS = {
    (1e-5, (0.4,)): 13.206712,
    (1e-5, (0.5,)): 9.997256,
    (1e-5, (1.0,)): 4.377178,
    (1e-5, (2.0,)): 1.993091,
    (1e-7, (2.0,)): 2.490339,
    (1e-5, (5.0,)): 0.725522,
    (1e-5, (3.0, 1.5)): 3.124648,
    (1e-5, (4.0,) * 6): 2.501740,
}
"""Epsilon by delta and noises, from dp-accounting 0.6.0 (its PLD). The package needs older attrs than ours, so its
numbers are recorded here."""


@pytest.mark.parametrize(("delta", "noises"), list(PLD_EPSILONS))
def test_the_accountant_equals_privacy_loss_distributions(delta: float, noises: tuple[float, ...]) -> None:
    mu = compose_mu(1 / noise for noise in noises)
    assert compute_epsilon(delta, mu) == pytest.approx(PLD_EPSILONS[delta, noises], abs=1e-3)


@pytest.mark.parametrize(("epsilon", "noises"), [(0.5, [2.0]), (2.0, [3.0, 1.5]), (6.0, [1.0, 0.9]), (1.0, [8.0] * 5)])
def test_delta_equals_a_numerical_integral(epsilon: float, noises: list[float]) -> None:
    mu = compose_mu(1 / noise for noise in noises)
    assert compute_delta(epsilon, mu) == pytest.approx(integrate_delta(epsilon, noises), rel=1e-2, abs=1e-9)


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 2.0, 10.0, 1_000.0])
def test_calibration_and_accounting_are_inverse(epsilon: float) -> None:
    mu = calibrate_mu(epsilon, 1e-5)
    assert compute_epsilon(1e-5, mu) == pytest.approx(epsilon, rel=1e-6)
    assert compute_epsilon(1e-5, mu * 1.01) > epsilon > compute_epsilon(1e-5, mu * 0.99)


def test_no_release_and_a_release_without_noise_are_the_two_ends() -> None:
    assert (compute_epsilon(1e-5, 0.0), compute_epsilon(1e-5, math.inf)) == (0.0, math.inf)
    assert (compute_delta(1.0, 0.0), compute_delta(1.0, math.inf)) == (0.0, 1.0)
    assert (bound_attack_auc(0.0), bound_attack_auc(math.inf)) == (0.5, 1.0)
    assert (bound_attack_tpr(0.01, 0.0), bound_attack_tpr(0.01, math.inf)) == (pytest.approx(0.01), 1.0)


def test_bounds_are_what_the_best_attack_reaches() -> None:
    bounds = {epsilon: bound_attack_auc(calibrate_mu(epsilon, 1e-5)) for epsilon in (1, 2, 5, 10, 20)}
    assert [round(bound, 3) for bound in bounds.values()] == [0.575, 0.639, 0.786, 0.921, 0.993]
    assert bound_attack_auc(0.5) == pytest.approx(count_wins(0.5, 200_000, np.random.default_rng(0)), abs=0.005)
    sample = np.random.default_rng(1).standard_normal((2, 200_000))
    found = (sample[0] + 0.5 > np.quantile(sample[1], 0.99)).mean()
    assert bound_attack_tpr(0.01, 0.5) == pytest.approx(found, abs=0.003)
    assert bound_attack_auc(0.5, 0.1) == pytest.approx(bound_attack_auc(0.5) + 0.1)


@pytest.mark.parametrize(("epsilon", "delta"), [(0, 1e-5), (-1, 1e-5), (math.nan, 1e-5), (2, 0), (2, 1)])
def test_budgets_that_mean_nothing_are_refused(epsilon: float, delta: float) -> None:
    with pytest.raises(UsageError, match="epsilon|delta"):
        calibrate_mu(epsilon, delta)
    with pytest.raises(UsageError, match="fpr"):
        bound_attack_tpr(0.0, 1.0)
