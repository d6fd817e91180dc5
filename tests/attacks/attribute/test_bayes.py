"""Gaussian classes under equal priors, against scikit-learn's and against what is known of them."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.naive_bayes import GaussianNB

from recveil.attacks.attribute.bayes import LinearDiscriminant, NaiveBayes
from recveil.testing.worlds import make_injected_label, make_planted_leak


def world(K: int) -> tuple[np.ndarray, ...]:
    x, secret = make_planted_leak(4000, 4, K, 2.0, rng=np.random.default_rng(K))
    keep = (secret.codes != 0) | (np.arange(4000) % 4 == 0)
    keep[2000:] = True
    half = int(keep[:2000].sum())
    x, y = x[keep].astype(np.float64), secret.codes[keep]
    return x[:half], y[:half], x[half:], y[half:]


@pytest.mark.parametrize("K", [2, 4])
def test_lda_is_that_of_scikit_learn_with_equal_priors(K: int) -> None:
    x, y, test, _ = world(K)
    mix = np.random.default_rng(0).standard_normal((4, 4)) * [1, 2, 4, 8]  # round clouds would be shrunk to the ball
    x, test = x @ mix, test @ mix
    wanted = LinearDiscriminantAnalysis(solver="lsqr", priors=np.full(K, 1 / K)).fit(x, y).predict_proba(test)
    assert np.abs(LinearDiscriminant().fit(x, y).predict_proba(test) - wanted).max() < 0.05


@pytest.mark.parametrize("K", [2, 4])
def test_naive_bayes_is_that_of_scikit_learn_with_equal_priors(K: int) -> None:
    x, y, test, _ = world(K)
    wanted = GaussianNB(priors=np.full(K, 1 / K)).fit(x, y).predict_proba(test)
    np.testing.assert_allclose(NaiveBayes(smoothing=1e-9).fit(x, y).predict_proba(test), wanted, atol=1e-9)
    np.testing.assert_allclose(NaiveBayes().fit(x, y).predict_proba(test), wanted, atol=0.02)


@pytest.mark.parametrize("make", [LinearDiscriminant, NaiveBayes])
def test_a_class_four_times_smaller_is_recalled_as_well(make: type) -> None:
    x, y, test, truth = world(2)
    hits = make().fit(x, y).predict_proba(test).argmax(1) == truth
    assert abs(hits[truth == 0].mean() - hits[truth == 1].mean()) < 0.06
    assert hits.mean() > 0.8


def test_lda_does_not_care_how_columns_are_mixed_and_naive_bayes_does() -> None:
    x, y, test, _ = world(2)
    mix = np.random.default_rng(0).standard_normal((4, 4)) * [1, 1, 2, 3]
    line, bayes = (
        np.mean(
            make().fit(x, y).predict_proba(test).argmax(1) == make().fit(x @ mix, y).predict_proba(test @ mix).argmax(1)
        )
        for make in (LinearDiscriminant, NaiveBayes)
    )
    assert line > 0.99
    assert bayes < 0.97


def test_lda_takes_more_columns_than_users_and_columns_that_repeat() -> None:
    x, secret = make_planted_leak(160, 3, 2, 4.0, rng=np.random.default_rng(0))
    noise = 0.5 * np.random.default_rng(1).standard_normal((160, 300))
    wide = np.hstack([x, x, np.zeros((160, 1)), noise]).astype(np.float64)
    guess = LinearDiscriminant().fit(wide[:80], secret.codes[:80]).predict_proba(wide[80:]).argmax(1)
    assert (guess == secret.codes[80:]).mean() > 0.8


@pytest.mark.parametrize("make", [LinearDiscriminant, NaiveBayes])
def test_a_class_of_one_user_and_a_table_without_variation_are_no_obstacle(make: type) -> None:
    x, y = np.random.default_rng(0).standard_normal((30, 4)), np.repeat([0, 1], [29, 1])
    for table in (x, np.zeros((30, 4))):
        belief = make().fit(table, y).predict_proba(table)
        assert np.isfinite(belief).all()
        np.testing.assert_allclose(belief.sum(1), 1)


def test_naive_bayes_sees_a_scale_and_lda_does_not() -> None:
    x, secret = make_injected_label("scale", n=2000, d=8, rng=np.random.default_rng(0))
    y, truth = secret.codes[:1000], secret.codes[1000:]
    bayes, line = (
        (make().fit(x[:1000].astype(np.float64), y).predict_proba(x[1000:]).argmax(1) == truth).mean()
        for make in (NaiveBayes, LinearDiscriminant)
    )
    assert bayes > 0.75
    assert line < 0.56
