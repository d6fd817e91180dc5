"""Against POT, and where the answer is known: sorting, permutations, Gaussians."""

from __future__ import annotations

import numpy as np
import ot as pot
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from recveil.core.errors import UsageError
from recveil.transport import distances as costs
from recveil.transport.distances import compute_squared_distances
from recveil.transport.sinkhorn import TransportPlan, sinkhorn


def classes(seed: int = 0, sizes: tuple[int, ...] = (30, 11, 50), m: int = 12) -> tuple[torch.Tensor, ...]:
    """Points of three classes in mixed order, atoms and their weights."""
    rng = np.random.default_rng(seed)
    codes = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    x = rng.standard_normal((len(codes), 3)) + codes[:, None]
    return tuple(map(torch.as_tensor, (x, codes, rng.standard_normal((m, 3)), rng.dirichlet(np.full(m, 2.0)))))


def carried(plan: TransportPlan) -> float:
    return float((plan.compute_coupling() * plan.cost).sum())


@pytest.mark.parametrize("epsilon", [1.0, 0.3])
def test_every_class_gets_the_plan_that_pot_finds_for_it_alone(epsilon: float) -> None:
    x, codes, atoms, weights = classes()
    plan = sinkhorn(compute_squared_distances(x, atoms), codes, weights, epsilon=epsilon, tolerance=1e-9, steps=20_000)
    T = plan.compute_coupling()
    for k in range(3):
        rows = (codes == k).numpy()
        n = int(rows.sum())
        wanted = pot.sinkhorn(
            np.full(n, 1 / n), weights.numpy(), plan.cost[rows].numpy(), epsilon,
            method="sinkhorn_log", numItermax=50_000, stopThr=1e-11,
        )  # fmt: skip
        np.testing.assert_allclose(T[rows].numpy(), wanted, atol=1e-7)


def test_both_margins_hold_and_the_violation_is_what_is_missing() -> None:
    x, codes, atoms, weights = classes()
    plan = sinkhorn(compute_squared_distances(x, atoms), codes, weights, epsilon=0.3, tolerance=1e-4)
    T, n = plan.compute_coupling(), torch.bincount(codes).double()
    torch.testing.assert_close(T.sum(1), 1 / n[codes])
    arrived = torch.zeros(3, 12, dtype=torch.float64).index_add_(0, codes, T)
    off = (arrived - weights).abs().sum(1).max()
    assert float(off) == pytest.approx(plan.violation, rel=1e-6)
    assert plan.violation <= 1e-4
    few = sinkhorn(plan.cost, codes, weights, epsilon=0.3, tolerance=1e-4, steps=1)
    assert few.violation > 1e-4  # and it says so


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), n=st.integers(2, 12))
def test_on_a_line_a_small_epsilon_sorts(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    x, atoms = (torch.as_tensor(np.cumsum(rng.uniform(0.5, 1.5, n))[rng.permutation(n)][:, None]) for _ in range(2))
    codes = torch.zeros(n, dtype=torch.int64)
    plan = sinkhorn(compute_squared_distances(x, atoms), codes, torch.full((n,), 1 / n), epsilon=0.02, tolerance=1e-4)
    wanted = float((x.sort(0).values - atoms.sort(0).values).square().mean())
    assert carried(plan) == pytest.approx(wanted, abs=0.02)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), n=st.integers(2, 10), d=st.integers(1, 4))
def test_points_that_are_the_atoms_in_another_order_stay_where_they_are(seed: int, n: int, d: int) -> None:
    rng = np.random.default_rng(seed)
    grid = np.argwhere(np.ones((4,) * d)) if 4**d >= n else np.arange(n)[:, None] * np.ones(d)
    atoms = torch.as_tensor(grid[rng.permutation(len(grid))[:n]].astype(float))
    x, codes = torch.cat([atoms[rng.permutation(n)] for _ in range(2)]), torch.arange(2).repeat_interleave(n)
    plan = sinkhorn(compute_squared_distances(x, atoms), codes, torch.full((n,), 1 / n), epsilon=0.03, tolerance=1e-5)
    places, spread = plan.project_points(atoms)
    torch.testing.assert_close(places, x, atol=1e-2, rtol=0)
    assert float(spread.max()) < 1e-2


def test_gaussians_cost_what_bures_says() -> None:
    """W2^2(N(0, 1), N(1, 2^2)) = 1 + (2 - 1)^2 on a line; quantiles stand for the Gaussians."""
    levels = (torch.arange(150, dtype=torch.float64) + 0.5) / 150
    z = torch.distributions.Normal(0.0, 1.0).icdf(levels)[:, None]
    plan = sinkhorn(
        compute_squared_distances(z, 1 + 2 * z),
        torch.zeros(150, dtype=torch.int64),
        torch.full((150,), 1 / 150),
        epsilon=0.02,
    )
    assert carried(plan) == pytest.approx(2.0, abs=0.05)


def test_projections_are_means_of_couplings_and_spread_is_the_rest_of_the_cost() -> None:
    x, codes, atoms, weights = classes()
    plan = sinkhorn(compute_squared_distances(x, atoms), codes, weights, epsilon=0.5)
    places, spread = plan.project_points(atoms)
    T, n = plan.compute_coupling(), torch.bincount(codes).double()
    torch.testing.assert_close(places, n[codes, None] * (T @ atoms))
    total = (((x - places).square().sum(1) + spread) / n[codes]).sum()
    torch.testing.assert_close(total, (T * plan.cost).sum())


def test_blocks_and_the_order_of_the_points_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    x, codes, atoms, weights = classes()
    whole = sinkhorn(compute_squared_distances(x, atoms), codes, weights, epsilon=0.2).compute_coupling()
    monkeypatch.setitem(costs.BLOCK_NUMBERS, "cpu", 100)
    mixed = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
    blocked = sinkhorn(
        compute_squared_distances(x[mixed], atoms), codes[mixed], weights, epsilon=0.2
    ).compute_coupling()
    torch.testing.assert_close(blocked, whole[mixed], atol=1e-10, rtol=0)


def test_good_potentials_are_a_good_start_and_small_epsilon_in_float32_stays_finite() -> None:
    x, codes, atoms, weights = classes(m=40)
    cost = compute_squared_distances(x.float(), atoms.float())
    plan = sinkhorn(cost, codes, weights.float(), epsilon=1e-2, tolerance=2e-2, steps=3000)
    assert torch.isfinite(plan.compute_coupling()).all()
    assert plan.violation <= 2e-2
    again = sinkhorn(cost, codes, weights.float(), epsilon=1e-2, tolerance=2e-2, steps=0, start=plan.potentials)
    assert again.violation == plan.violation


def test_atoms_without_weight_receive_nothing() -> None:
    x, codes, atoms, weights = classes()
    weights = torch.where(torch.arange(12) < 3, 0.0, weights)
    plan = sinkhorn(compute_squared_distances(x, atoms), codes, weights / weights.sum(), epsilon=0.3)
    assert float(plan.compute_coupling()[:, :3].sum()) < 1e-3


@pytest.mark.parametrize("epsilon", [0.0, -1.0, float("nan")])
def test_epsilon_must_be_positive(epsilon: float) -> None:
    x, codes, atoms, weights = classes()
    with pytest.raises(UsageError, match="must be positive"):
        sinkhorn(compute_squared_distances(x, atoms), codes, weights, epsilon=epsilon)
