"""Least displacement for a divergence: against Gaussian transport, the rows themselves, and its own curve."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from oracles.bures import compute_squared_bures
from recveil.transport.bures_wasserstein import compute_barycenter
from recveil.transport.divergence import ClassRows, choose_ridge, compute_divergence, compute_gradient
from recveil.transport.moments import Moments
from recveil.transport.tradeoff import Tradeoff, TradeoffPoint


def world(seed: int, n: int, d: int, kinds: tuple[int, ...]) -> tuple[torch.Tensor, np.ndarray]:
    rng = np.random.default_rng(seed)
    codes = np.stack([rng.integers(-1 if j else 0, K, size=n) for j, K in enumerate(kinds)], axis=1)
    x = rng.standard_normal((n, d)) @ (np.eye(d) + 0.3 * rng.standard_normal((d, d)))
    for column in codes.T:
        x = x * (1 + 0.3 * column[:, None]) + rng.standard_normal((column.max() + 2, d))[column]
    return torch.as_tensor(x), codes


def problem(x: torch.Tensor, codes: np.ndarray) -> tuple[Tradeoff, torch.Tensor, Moments]:
    kinds, cell = np.unique(codes, axis=0, return_inverse=True)
    cell = torch.as_tensor(cell.reshape(-1))
    cells = Moments.from_rows(x, cell, len(kinds))
    return Tradeoff(cells, torch.as_tensor(kinds), choose_ridge(x, 1e-3)), cell, cells


def carried(
    x: torch.Tensor, tradeoff: Tradeoff, cell: torch.Tensor, cells: Moments, point: TradeoffPoint
) -> torch.Tensor:
    A, b = tradeoff.compute_maps(point)
    return ((x - cells.mean[cell])[:, None] @ A[cell])[:, 0] + b[cell]


def divergence(x: torch.Tensor, codes: np.ndarray, eps: float) -> tuple[float, torch.Tensor]:
    """Of the rows: the mean over the attributes, and the gradient."""
    every = [ClassRows.from_codes(torch.as_tensor(column)) for column in codes.T]
    fits = [compute_divergence(classes.compute_moments(x), eps) for classes in every]
    slopes = [compute_gradient(x, classes, fit) for classes, fit in zip(every, fits, strict=True)]
    return float(np.mean([float(fit.value) for fit in fits])), torch.stack(slopes).mean(0)


@pytest.mark.parametrize("kinds", [(2,), (4,), (2, 3)])
def test_a_point_says_what_its_maps_do_to_the_rows(kinds: tuple[int, ...]) -> None:
    x, codes = world(0, 300, 4, kinds)
    tradeoff, cell, cells = problem(x, codes)
    point = tradeoff.minimize_displacement(tradeoff.start.divergence / 3)
    y = carried(x, tradeoff, cell, cells, point)
    spread = float((x - x.mean(0)).square().sum())
    assert divergence(y, codes, tradeoff.eps)[0] == pytest.approx(point.divergence, rel=1e-8)
    assert float((y - x).square().sum()) / spread == pytest.approx(point.displacement, rel=1e-8)
    torch.testing.assert_close(carried(x, tradeoff, cell, cells, tradeoff.start), x)


@pytest.mark.parametrize("kinds", [(2,), (2, 3)])
def test_displacement_and_divergence_pull_against_each_other_row_by_row(kinds: tuple[int, ...]) -> None:
    """Karush-Kuhn-Tucker, for the rows and not only for the cells: x - x0 is a multiple of minus the gradient."""
    x, codes = world(1, 300, 4, kinds)
    tradeoff, cell, cells = problem(x, codes)
    y = carried(x, tradeoff, cell, cells, tradeoff.minimize_displacement(tradeoff.start.divergence / 3))
    away, slope = (y - x).reshape(-1), divergence(y, codes, tradeoff.eps)[1].reshape(-1)
    assert float(away @ slope / away.norm() / slope.norm()) < -1 + 1e-6


@pytest.mark.parametrize("share", [0.9, 0.3, 0.01, 1e-4])
def test_the_target_is_met_and_not_by_much(share: float) -> None:
    x, codes = world(2, 400, 5, (3,))
    tradeoff, *_ = problem(x, codes)
    aim = share * tradeoff.start.divergence
    assert 0.99 * aim < tradeoff.minimize_displacement(aim).divergence <= aim


@pytest.mark.thorough
@pytest.mark.parametrize("moved", [1e-4, 0.01, 0.1])
def test_the_budget_is_kept_and_spent(moved: float) -> None:
    x, codes = world(2, 400, 5, (3,))
    tradeoff, *_ = problem(x, codes)
    found = tradeoff.minimize_divergence(moved)
    assert 0.99 * moved < found.displacement <= moved
    assert found.divergence < tradeoff.start.divergence
    # The other question has the same answer.
    assert tradeoff.minimize_displacement(found.divergence).displacement == pytest.approx(found.displacement, rel=0.01)


def test_a_budget_beyond_what_is_needed_is_not_spent() -> None:
    x, codes = world(3, 300, 3, (2,))
    tradeoff, *_ = problem(x, codes)
    found = tradeoff.minimize_divergence(100.0)
    assert found.divergence < 1e-6 * tradeoff.start.divergence
    assert found.displacement == pytest.approx(tradeoff.minimize_displacement(0.0).displacement, rel=0.01)


@pytest.mark.thorough
@pytest.mark.parametrize("K", [2, 4])
def test_no_divergence_costs_what_gelbrich_says(K: int) -> None:
    x, codes = world(4, 500, 5, (K,))
    tradeoff, _, cells = problem(x, codes)
    B = compute_barycenter(cells.covariance, cells.weights)
    apart = (cells.mean - x.mean(0)).square().sum(1) + compute_squared_bures(
        cells.covariance, B.expand_as(cells.covariance)
    )
    least = float(cells.weights @ apart) / tradeoff.scale
    assert 0.99 * least < tradeoff.minimize_displacement(0.0).displacement <= least


@pytest.mark.thorough
def test_less_divergence_costs_more_displacement() -> None:
    x, codes = world(5, 300, 4, (2, 3))
    tradeoff, *_ = problem(x, codes)
    now = tradeoff.start.divergence
    points = [tradeoff.minimize_displacement(share * now) for share in (1.0, 0.7, 0.1, 0.01)]
    assert points[0] is tradeoff.start
    assert all(a.displacement < b.displacement for a, b in zip(points, points[1:], strict=False))


def test_constant_directions_stay_constant() -> None:
    """A cell of three rows in four dimensions stays in its plane: no map can do more, and none is promised."""
    x, codes = world(6, 200, 4, (2,))
    keep = np.concatenate([np.flatnonzero(codes[:, 0] == 0), np.flatnonzero(codes[:, 0] == 1)[:3]])
    x, codes = x[keep], codes[keep]
    tradeoff, cell, cells = problem(x, codes)
    point = tradeoff.minimize_displacement(0.5 * tradeoff.start.divergence)
    y = carried(x, tradeoff, cell, cells, point)
    assert torch.linalg.matrix_rank(y[-3:] - y[-3:].mean(0), atol=1e-6) <= 2
    assert divergence(y, codes, tradeoff.eps)[0] == pytest.approx(point.divergence, rel=1e-6)
