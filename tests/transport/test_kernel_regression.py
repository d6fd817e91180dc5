"""Kernel ridge regression: the textbook system, and a setting that fits the signal."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from recveil.transport.kernel_regression import (
    KernelSetting,
    choose_setting,
    compute_kernel,
    solve_ridge,
    standardize_columns,
)


def test_conjugate_gradients_solve_the_textbook_system_and_leave_out_rows_without_weight(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(0)
    x, targets, weights = rng.standard_normal((40, 3)), rng.standard_normal((40, 2)), rng.uniform(0.5, 2, 40)
    weights[30:] = 0
    rows, columns, precision = (torch.as_tensor(a) for a in (x, targets, weights[:, None] / 0.7))
    gram = compute_kernel(rows, rows, KernelSetting("laplace", 1.5, 0.7))
    np.testing.assert_allclose(gram, np.exp(-np.linalg.norm(x[:, None] - x[None], axis=2) / 1.5), atol=1e-6)
    monkeypatch.setattr("recveil.transport.kernel_regression.TOLERANCE", 1e-4)
    coefficients, mean = solve_ridge(gram, columns, precision)
    np.testing.assert_allclose(mean, np.average(targets, axis=0, weights=weights), atol=1e-12)
    expected = np.linalg.solve(gram.numpy()[:30, :30] + np.diag(0.7 / weights[:30]), targets[:30] - mean.numpy())
    np.testing.assert_allclose(coefficients[:30], expected, atol=2e-3)
    assert not coefficients[30:].any()


def test_noise_gets_a_larger_ridge_than_signal() -> None:
    rng = np.random.default_rng(0)
    x = torch.as_tensor(rng.standard_normal((900, 3)), dtype=torch.float32)
    signal = (x[:, :1] * x[:, 1:2]).sign()
    fitted, refused = (
        choose_setting(x, y, torch.ones(900)) for y in (signal, signal[torch.as_tensor(rng.permutation(900))])
    )
    assert fitted.ridge < refused.ridge


def test_columns_that_do_not_vary_become_zero() -> None:
    x = np.stack([np.arange(5.0), np.full(5, 0.1), 1e-12 * np.arange(5.0)], axis=1)
    standardized = standardize_columns(x)
    np.testing.assert_allclose(standardized.std(0), [1, 0, 1], atol=1e-6)
