"""Classifiers made fair to small classes, against scikit-learn's."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis

from recveil.attacks.attribute.classic import Quadratic
from recveil.testing.worlds import make_injected_label, make_planted_leak


def two_halves(n: int, d: int, K: int, size: float, seed: int = 0) -> tuple[np.ndarray, ...]:
    x, secret = make_planted_leak(2 * n, d, K, size, rng=np.random.default_rng(seed))
    return x[:n].astype(np.float64), secret.codes[:n], x[n:].astype(np.float64), secret.codes[n:]


@pytest.mark.parametrize("K", [2, 4])
def test_without_a_ridge_quadratic_is_that_of_scikit_learn(K: int) -> None:
    x, y, test, _ = two_halves(400, 4, K, 2.0)
    x[y == 1] *= 2
    # scikit-learn divides by n - 1; ours by n, which for the same numbers of users moves the posterior a little.
    wanted = QuadraticDiscriminantAnalysis(priors=np.full(K, 1 / K)).fit(x, y).predict_proba(test)
    np.testing.assert_allclose(Quadratic(ridge=0.0).fit(x, y).predict_proba(test), wanted, atol=0.02)


def test_quadratic_takes_classes_smaller_than_the_dimension() -> None:
    x, y, test, _ = two_halves(60, 20, 2, 2.0)
    few = np.concatenate([np.flatnonzero(y == 0), np.flatnonzero(y == 1)[:1]])
    guess = Quadratic().fit(x[few], y[few]).predict_proba(test)
    assert np.isfinite(guess).all()
    np.testing.assert_allclose(guess.sum(1), 1)


def test_quadratic_sees_a_scale_and_a_parity() -> None:
    for kind in ("scale", "parity"):
        x, secret = make_injected_label(kind, n=800, d=4, rng=np.random.default_rng(0))
        guess = Quadratic().fit(x[:400], secret.codes[:400]).predict_proba(x[400:]).argmax(1)
        assert (guess == secret.codes[400:]).mean() > 0.65


def test_a_rare_class_is_guessed_as_often_as_it_deserves() -> None:
    """Where nothing tells the classes apart, balanced attackers do not give all guesses to the large one."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], [900, 100])
    guess = Quadratic().fit(rng.standard_normal((1000, 2)), y).predict_proba(rng.standard_normal((500, 2))).argmax(1)
    assert 0.1 < guess.mean() < 0.9
