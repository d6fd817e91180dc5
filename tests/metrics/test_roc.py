"""ROC numbers against scikit-learn and SciPy, and intervals that cover."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.metrics import balanced_accuracy_score, roc_auc_score, roc_curve

from recveil.core.errors import DataError, UsageError
from recveil.metrics.roc import (
    choose_threshold,
    estimate_auc,
    estimate_auc_difference,
    estimate_balanced_accuracy,
    estimate_proportion,
    estimate_tpr_at_fpr,
)


def gaussian(n: int, shift: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    member = np.arange(n) % 2 == 0
    return member, rng.standard_normal(n) + shift * member


tied = st.lists(st.tuples(st.booleans(), st.integers(0, 4)), min_size=4, max_size=60).filter(
    lambda rows: len({m for m, _ in rows}) == 2
)


@settings(deadline=None, max_examples=50)
@given(tied)
def test_auc_is_that_of_scikit_learn_with_ties(rows: list[tuple[bool, int]]) -> None:
    member, score = np.array([m for m, _ in rows]), np.array([float(s) for _, s in rows])
    found = estimate_auc(member, score)
    assert found.value == pytest.approx(roc_auc_score(member, score), abs=1e-12)
    assert 0 <= found.low <= found.value + 1e-12
    assert found.value <= found.high + 1e-12 <= 1 + 2e-12
    assert found.n == len(rows)


def test_delong_error_is_the_textbook_sum_over_pairs() -> None:
    rng = np.random.default_rng(0)
    member, score = gaussian(60, 0.8, rng)
    score = np.round(score, 1)  # ties
    win = np.sign(score[member][:, None] - score[~member]) / 2 + 0.5
    error = math.sqrt(np.var(win.mean(1), ddof=1) / len(win) + np.var(win.mean(0), ddof=1) / win.shape[1])
    found, value = estimate_auc(member, score), win.mean()
    half = stats.norm.ppf(0.975) * error / (value * (1 - value))
    for end, side in ((found.low, -1), (found.high, 1)):
        assert math.log(end / (1 - end)) == pytest.approx(math.log(value / (1 - value)) + side * half)


@pytest.mark.parametrize("shift", [0.0, 2.5])
def test_auc_interval_covers(shift: float) -> None:
    truth = stats.norm.cdf(shift / math.sqrt(2))
    found = [estimate_auc(*gaussian(200, shift, np.random.default_rng(seed))) for seed in range(400)]
    assert 0.925 <= np.mean([e.low <= truth <= e.high for e in found]) <= 0.975


def test_auc_without_spread_still_has_an_interval() -> None:
    member = np.arange(80) < 40
    won, tie = estimate_auc(member, member.astype(float)), estimate_auc(member, np.ones(80))
    assert (won.value, won.high) == (1.0, 1.0)
    assert won.low == pytest.approx(0.025 ** (1 / 40))
    assert tie.value == 0.5
    assert tie.low < 0.5 < tie.high


@pytest.mark.thorough
def test_paired_difference_is_narrower_than_two_intervals_and_covers_zero_under_equality() -> None:
    covered, width, apart = [], [], []
    for seed in range(300):
        rng = np.random.default_rng(seed)
        member, shared = gaussian(200, 1.0, rng)
        a, b = (shared + 0.3 * rng.standard_normal(200) for _ in range(2))
        gap, one, two = estimate_auc_difference(member, a, b), estimate_auc(member, a), estimate_auc(member, b)
        assert gap.value == pytest.approx(one.value - two.value)
        covered.append(gap.low <= 0 <= gap.high)
        width.append(gap.high - gap.low)
        apart.append(one.high - one.low)
    assert 0.92 <= np.mean(covered) <= 0.98
    assert np.mean(width) < 0.6 * np.mean(apart)


def test_paired_difference_finds_the_better_score() -> None:
    member, score = gaussian(400, 1.5, np.random.default_rng(0))
    assert estimate_auc_difference(member, score, np.random.default_rng(1).standard_normal(400)).low > 0
    same = estimate_auc_difference(member, score, score)
    assert same.value == 0
    assert same.low < 0 < same.high


def test_tpr_is_the_point_of_the_roc_curve_with_exact_intervals() -> None:
    member, score = gaussian(4000, 1.0, np.random.default_rng(0))
    found = estimate_tpr_at_fpr(member, score, 0.01)
    assert found is not None
    false, true, _ = roc_curve(member, score, drop_intermediate=False)
    assert found.tpr.value == pytest.approx(true[false <= 0.01].max())
    assert found.realized_fpr.value <= 0.01
    exact = stats.binomtest(round(found.tpr.value * 2000), 2000).proportion_ci(0.95, method="exact")
    assert (found.tpr.low, found.tpr.high) == pytest.approx((exact.low, exact.high))
    assert found.realized_fpr.n == 2000


def test_ties_at_the_threshold_are_not_accused() -> None:
    member = np.arange(2000) % 2 == 0
    found = estimate_tpr_at_fpr(member, np.ones(2000), 0.01)
    assert found is not None
    assert found.tpr.value == 0
    assert found.realized_fpr.value == 0


@pytest.mark.parametrize(("others", "told"), [(999, False), (1000, True)])
def test_a_rate_is_reported_only_with_ten_false_positives(others: int, told: bool) -> None:
    member = np.arange(others + 50) < 50
    score = np.random.default_rng(0).standard_normal(len(member))
    assert (estimate_tpr_at_fpr(member, score, 0.01) is not None) == told


@settings(deadline=None, max_examples=50)
@given(tied, st.integers(-1, 5))
def test_balanced_accuracy_is_that_of_scikit_learn(rows: list[tuple[bool, int]], threshold: int) -> None:
    member, score = np.array([m for m, _ in rows]), np.array([float(s) for _, s in rows])
    found = estimate_balanced_accuracy(member, score, threshold)
    assert found.value == pytest.approx(balanced_accuracy_score(member, score >= threshold))
    assert found.low <= found.value <= found.high


def test_balanced_accuracy_interval_covers() -> None:
    truth = stats.norm.cdf(0.5)
    found = [estimate_balanced_accuracy(*gaussian(200, 1.0, np.random.default_rng(s)), 0.5) for s in range(400)]
    assert np.mean([e.low <= truth <= e.high for e in found]) >= 0.94


@settings(deadline=None, max_examples=50)
@given(tied)
def test_no_threshold_does_better_than_the_best(rows: list[tuple[bool, int]]) -> None:
    member, score = np.array([m for m, _ in rows]), np.array([float(s) for _, s in rows])
    best = estimate_balanced_accuracy(member, score, choose_threshold(member, score)).value
    every = [estimate_balanced_accuracy(member, score, t).value for t in np.unique(score)[1:]]
    assert best >= max(every, default=0.5) - 1e-12


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 5000), st.floats(0, 1))
def test_a_share_has_the_exact_interval_of_scipy(n: int, share: float) -> None:
    hits = round(share * n)
    exact = stats.binomtest(hits, n).proportion_ci(0.95, method="exact")
    found = estimate_proportion(hits, n)
    assert (found.low, found.high) == pytest.approx((exact.low, exact.high), abs=1e-9)


def test_unusable_scores_are_refused() -> None:
    member = np.array([True, True])
    with pytest.raises(DataError, match="All 2 users are members"):
        estimate_auc(member, np.zeros(2))
    with pytest.raises(DataError, match="All 2 users are non-members"):
        estimate_auc(~member, np.zeros(2))
    with pytest.raises(DataError, match="1 of 2 scores are not finite"):
        estimate_auc(np.array([True, False]), np.array([0.0, np.nan]))
    with pytest.raises(UsageError, match="3 scores and 2 membership flags"):
        estimate_auc(member, np.zeros(3))
    with pytest.raises(UsageError, match="between 0 and 1"):
        estimate_tpr_at_fpr(member, np.zeros(2), 1.0)
