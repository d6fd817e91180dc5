"""Kernel ridge regression: the textbook system, and a setting that fits the signal."""

from __future__ import annotations

import numpy as np
import pytest

from recveil.transport import kernel_regression


def test_a_regression_on_all_rows_solves_the_textbook_system() -> None:
    rng = np.random.default_rng(0)
    x, targets, weights = rng.standard_normal((40, 3)), rng.standard_normal((40, 2)), rng.uniform(0.5, 2, 40)
    setting = kernel_regression.KernelSetting("laplace", 1.5, 0.7)
    regression = kernel_regression.KernelRegression(setting, x)
    features = regression.compute_features(x)
    gram = np.exp(-np.linalg.norm(x[:, None] - x[None], axis=2) / 1.5)
    mean = np.average(targets, axis=0, weights=weights)
    expected = gram @ np.linalg.solve(gram + np.diag(0.7 / weights), targets - mean) + mean
    np.testing.assert_allclose(regression.fit(features, targets, weights).predict(features), expected, atol=1e-6)


@pytest.mark.thorough
def test_noise_gets_a_larger_ridge_than_signal() -> None:
    rng = np.random.default_rng(0)
    x, weights = rng.standard_normal((900, 3)), np.ones(900)
    signal = np.sign(x[:, :1] * x[:, 1:2])
    noise = rng.permutation(signal)
    fitted, refused = (
        kernel_regression.choose_setting(x, y, weights, np.random.default_rng(0)) for y in (signal, noise)
    )
    assert fitted.ridge < refused.ridge
    assert fitted.error < 0.5 < 0.9 < refused.error


def test_columns_that_do_not_vary_become_zero() -> None:
    x = np.stack([np.arange(5.0), np.full(5, 0.1), 1e-12 * np.arange(5.0)], axis=1)
    standardized = kernel_regression.standardize_columns(x)
    np.testing.assert_allclose(standardized.std(0), [1, 0, 1], atol=1e-6)
