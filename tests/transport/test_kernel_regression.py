"""Kernel ridge regression: the textbook system, and a setting that fits the signal."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from recveil.transport.kernel_regression import (
    MAX_COLUMNS_TO_CHOOSE,
    MAX_STEPS,
    MAX_STEPS_TO_CHOOSE,
    KernelSetting,
    _sum_columns,
    choose_settings,
    compute_kernel,
    solve_ridges,
    standardize_columns,
)


def test_conjugate_gradients_solve_the_textbook_system_and_leave_out_rows_without_weight(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(0)
    x, targets, weights = rng.standard_normal((40, 3)), rng.standard_normal((40, 2)), rng.uniform(0.5, 2, 40)
    weights[30:] = 0
    rows, columns, known = (torch.as_tensor(a) for a in (x, targets, np.stack([weights, weights[::-1]], axis=1)))
    gram = compute_kernel(rows, rows, KernelSetting("laplace", 1.5, 0.7))
    np.testing.assert_allclose(gram, np.exp(-np.linalg.norm(x[:, None] - x[None], axis=2) / 1.5), atol=1e-6)
    monkeypatch.setattr("recveil.transport.kernel_regression.TOLERANCE", 1e-4)
    fit = solve_ridges(gram, columns, known, [0.7, 5.0])
    for column in range(2):
        own = known[:, column].numpy()
        np.testing.assert_allclose(fit.mean[column], np.average(targets[:, column], weights=own), atol=1e-12)
        inside, goal = own > 0, targets[:, column] - fit.mean[column].item()
        for ridge, coefficients, guesses in zip([0.7, 5.0], fit.coefficients, fit.guesses, strict=True):
            system = gram.numpy()[np.ix_(inside, inside)] + np.diag(ridge / own[inside])
            expected = np.linalg.solve(system, goal[inside])
            np.testing.assert_allclose(coefficients[inside, column], expected, atol=2e-3)
            assert not coefficients[~inside, column].any()
            all_rows = gram.numpy()[:, inside] @ expected + fit.mean[column].item()
            np.testing.assert_allclose(guesses[:, column], all_rows, atol=5e-3)


def test_a_small_ridge_on_many_rows_is_not_cut_short() -> None:
    x = torch.as_tensor(np.random.default_rng(2).standard_normal((2_000, 8)), dtype=torch.float32)
    gram = compute_kernel(x, x, KernelSetting("rbf", 4.0, 0.1))
    y, weights = x[:, :1].sign(), torch.ones(2_000, 1)

    def compute_residual(max_steps: int) -> float:
        fit = solve_ridges(gram, y, weights, [0.1], max_steps)
        goal = y - fit.mean
        rest = goal - gram @ fit.coefficients[0] - 0.1 * fit.coefficients[0]
        return float(rest.norm() / goal.norm())

    assert compute_residual(MAX_STEPS) < 0.05
    assert compute_residual(MAX_STEPS_TO_CHOOSE) > 0.05


def test_a_column_is_solved_beside_others_as_alone() -> None:
    """The other column takes many more steps, which must not change this one."""
    rng = np.random.default_rng(3)
    x = torch.as_tensor(rng.standard_normal((500, 3)), dtype=torch.float32)
    gram, y = compute_kernel(x, x, KernelSetting("rbf", 2.0, 0.1)), x[:, :1].sign()
    weights = torch.as_tensor(np.stack([np.full(500, 0.01), np.full(500, 30.0)], 1), dtype=torch.float32)
    both = solve_ridges(gram, y.repeat(1, 2), weights, [0.1, 1.0])
    alone = solve_ridges(gram, y, weights[:, :1], [0.1, 1.0])
    torch.testing.assert_close(both.coefficients[..., :1], alone.coefficients, rtol=1e-3, atol=1e-5)
    torch.testing.assert_close(both.guesses[..., :1], alone.guesses, rtol=1e-3, atol=1e-4)


def test_equal_targets_are_guessed_as_they_are() -> None:
    x = torch.as_tensor(np.random.default_rng(0).standard_normal((20, 3)))
    gram = compute_kernel(x, x, KernelSetting("rbf", 1.0, 1.0))
    fit = solve_ridges(gram, torch.full((20, 1), 0.25, dtype=x.dtype), torch.ones(20, 1, dtype=x.dtype), [1.0])
    np.testing.assert_allclose(fit.guesses, 0.25, atol=1e-12)


def test_noise_gets_a_larger_ridge_than_signal() -> None:
    rng = np.random.default_rng(0)
    x = torch.as_tensor(rng.standard_normal((900, 3)), dtype=torch.float32)
    signal = (x[:, :1] * x[:, 1:2]).sign()
    [fitted], [refused] = (
        choose_settings(x, y, torch.ones(900, 1)) for y in (signal, signal[torch.as_tensor(rng.permutation(900))])
    )
    assert fitted.ridge < refused.ridge


def test_problems_that_share_the_kernel_choose_as_each_would_alone() -> None:
    rng = np.random.default_rng(1)
    x = torch.as_tensor(rng.standard_normal((600, 3)), dtype=torch.float32)
    y = (x[:, :1] * x[:, 1:2] + 0.5 * torch.as_tensor(rng.standard_normal((600, 1)), dtype=torch.float32)).sign()
    y[300:] = y[300:][torch.as_tensor(rng.permutation(300))]  # the second problem has noise alone
    rows = torch.arange(600)[:, None]
    weights = torch.cat([rows < 300, rows >= 300], 1).float()
    together = choose_settings(x, y, weights)
    alone = [choose_settings(x[own], y[own], torch.ones(300, 1))[0] for own in (slice(300), slice(300, 600))]
    assert [(s.kernel, s.ridge) for s in together] == [(s.kernel, s.ridge) for s in alone]
    assert together[0].ridge < together[1].ridge


def test_sums_of_many_columns_keep_squared_errors() -> None:
    rng = np.random.default_rng(4)
    errors = torch.as_tensor(rng.standard_normal((4_000, 200)) * rng.uniform(0, 2, 200), dtype=torch.float32)
    sums = _sum_columns(errors)
    assert sums.shape == (4_000, MAX_COLUMNS_TO_CHOOSE)
    assert float(sums.square().sum()) == pytest.approx(float(errors.square().sum()), rel=0.05)
    few = errors[:, :MAX_COLUMNS_TO_CHOOSE]
    assert _sum_columns(few) is few


def test_columns_that_do_not_vary_become_zero() -> None:
    x = np.stack([np.arange(5.0), np.full(5, 0.1), 1e-12 * np.arange(5.0)], axis=1)
    standardized = standardize_columns(x)
    np.testing.assert_allclose(standardized.std(0), [1, 0, 1], atol=1e-6)
