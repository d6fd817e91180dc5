"""The corrected resampled t: its formula, its coverage where folds are correlated, and its p-values."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from recveil.metrics.intervals import (
    compute_corrected_error,
    compute_corrected_p,
    estimate_advantage,
    estimate_corrected_mean,
)

SHARE = 0.25


def correlated(runs: int, J: int, truth: float, rng: np.random.Generator) -> np.ndarray:
    """Fold scores with the correlation n_test / (n_test + n_train) that Nadeau and Bengio assume."""
    rho = SHARE / (1 + SHARE)
    return (
        truth
        + 0.05 * (math.sqrt(rho) * rng.standard_normal((runs, 1)))
        + 0.05 * math.sqrt(1 - rho) * rng.standard_normal((runs, J))
    )


def test_without_shared_training_users_it_is_the_textbook_t() -> None:
    scores = np.random.default_rng(0).normal(0.6, 0.1, 12)
    got = estimate_corrected_mean(scores, 0.0, 99)
    low, high = stats.t.interval(0.95, 11, scores.mean(), stats.sem(scores))
    assert (got.value, got.low, got.high, got.n) == pytest.approx((scores.mean(), low, high, 99))
    for two_sided, kind in ((True, "two-sided"), (False, "greater")):
        wanted = stats.ttest_1samp(scores, 0.5, alternative=kind).pvalue
        assert compute_corrected_p(scores, 0.0, 0.5, two_sided=two_sided) == pytest.approx(wanted)


def test_shared_training_users_widen_it_as_nadeau_and_bengio_say() -> None:
    scores = np.array([0.5, 0.6, 0.7, 0.8, 0.9])
    assert compute_corrected_error(scores, SHARE) == pytest.approx(math.sqrt((1 / 5 + SHARE) * 0.025))


@pytest.mark.thorough
@pytest.mark.parametrize("J", [5, 10, 25])
def test_it_covers_where_folds_are_correlated_and_the_plain_t_does_not(J: int) -> None:
    runs = correlated(1500, J, 0.6, np.random.default_rng(J))
    inside = {
        share: np.mean([e.low <= 0.6 <= e.high for e in (estimate_corrected_mean(s, share, 1) for s in runs)])
        for share in (SHARE, 0.0)
    }
    assert 0.93 < inside[SHARE] < 0.97
    assert inside[0.0] < 0.9


def test_p_values_are_uniform_without_an_effect_and_small_with_one() -> None:
    rng = np.random.default_rng(0)
    for two_sided in (True, False):
        null = [compute_corrected_p(s, SHARE, 0.5, two_sided=two_sided) for s in correlated(1500, 10, 0.5, rng)]
        assert stats.kstest(null, "uniform").pvalue > 1e-3
        effect = [compute_corrected_p(s, SHARE, 0.5, two_sided=two_sided) for s in correlated(200, 10, 0.7, rng)]
        assert np.mean(effect) < 0.01
    below = [compute_corrected_p(s, SHARE, 0.5, two_sided=False) for s in correlated(200, 10, 0.3, rng)]
    assert np.mean(below) > 0.99


@pytest.mark.parametrize(
    ("score", "two_sided", "p"), [(0.5, True, 1), (0.5, False, 1), (1 / 3, False, 1), (0.9, True, 0)]
)
def test_folds_that_are_all_alike_are_evidence_only_off_the_null(score: float, two_sided: bool, p: float) -> None:
    assert compute_corrected_p(np.full(10, score), SHARE, 0.5, two_sided=two_sided) == p


@pytest.mark.parametrize("K", [3, 5, 6, 7, 11])
def test_rounding_is_not_evidence(K: int) -> None:
    """Ten times 1/K, summed and divided, need not be 1/K to the last digit."""
    folds = np.array([np.nanmean(np.eye(K)[0]) for _ in range(10)])
    assert compute_corrected_p(folds, SHARE, 1 / K, two_sided=True) == 1
    assert compute_corrected_p(folds + 1e-17, SHARE, 1 / K, two_sided=False) == 1


@pytest.mark.parametrize("shift", [-0.4, -0.02, 0.0, 0.02, 0.4])
def test_an_advantage_is_floored_at_chance_and_keeps_both_distances_from_it(shift: float) -> None:
    signed = shift + np.array([-0.05, 0.0, 0.02, 0.03, 0.05])
    plain, got = estimate_corrected_mean(signed, SHARE, 70), estimate_advantage(signed, SHARE, 70)
    assert (got.value, got.low, got.n) == (max(0, plain.value), max(0, plain.low), 70)
    assert got.high == max(plain.high, -plain.low)
    assert estimate_advantage(-signed, SHARE, 70).high == pytest.approx(got.high)


def test_intervals_stay_inside_their_range() -> None:
    wide = np.array([0.1, 0.9])  # two folds
    assert estimate_advantage(wide, 1.0, 10).high == 1.0
    assert estimate_advantage(-wide, 1.0, 10).high == 1.0
    recall = estimate_corrected_mean(wide, 1.0, 10, lowest=0.0, highest=1.0)
    assert (recall.value, recall.low, recall.high) == (0.5, 0.0, 1.0)


def test_one_fold_has_no_interval() -> None:
    got = estimate_corrected_mean(np.array([0.7]), SHARE, 5)
    assert got.value == 0.7
    assert math.isnan(got.low)
    assert math.isnan(got.high)
