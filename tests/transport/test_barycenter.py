"""The dual of Lemma 1: weak duality, its supergradient, POT's linear program, and answers known beforehand."""

from __future__ import annotations

import numpy as np
import ot as pot
import pytest
import torch

from recveil.core.errors import UsageError
from recveil.transport.barycenter import Barycenter, compute_dual_value, fit_barycenter, fit_free_barycenter
from recveil.transport.distances import compute_squared_distances


def world(seed: int = 0, sizes: tuple[int, ...] = (60, 25), m: int = 15) -> tuple[torch.Tensor, ...]:
    rng = np.random.default_rng(seed)
    codes = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    x = rng.standard_normal((len(codes), 2)) * (1 + codes[:, None]) + 2 * codes[:, None]
    atoms = x[rng.choice(len(x), m, replace=False)]
    return torch.as_tensor(x), torch.as_tensor(codes), torch.as_tensor(atoms)


def exact(x: torch.Tensor, codes: torch.Tensor, found: Barycenter, tau: float) -> float:
    """The objective at these atoms and weights, by POT's exact transport."""
    value = tau * float(torch.xlogy(found.weights, found.weights).sum())
    weights = found.weights.numpy() / found.weights.numpy().sum()
    for k in range(int(codes.max()) + 1):
        mine = x[codes == k]
        cost = compute_squared_distances(mine, found.atoms).numpy()
        value += len(mine) / len(x) * pot.emd2(np.full(len(mine), 1 / len(mine)), weights, cost)
    return value


@pytest.mark.thorough
@pytest.mark.parametrize("tau", [0.0, 0.1, 1.0, 10.0])
@pytest.mark.parametrize("sizes", [(60, 25), (30, 20, 10)])
def test_the_objective_lies_between_the_dual_and_the_value_and_the_gap_is_small(
    tau: float, sizes: tuple[int, ...]
) -> None:
    x, codes, atoms = world(sizes=sizes)
    found = fit_barycenter(x, codes, atoms, tau=tau, tolerance=1e-3, steps=3000)
    objective = exact(x, codes, found, tau)
    assert found.gap <= 1e-3 * max(found.transport, abs(found.value))
    assert found.value - found.gap - 1e-9 <= objective <= found.value + 1e-9
    assert float(found.weights.sum()) == pytest.approx(1)


def test_without_a_penalty_it_is_the_barycenter_of_pots_linear_program() -> None:
    """On common atoms: every class sits on the atoms itself, so POT's `barycenter` speaks of the same problem."""
    rng = np.random.default_rng(3)
    atoms = torch.as_tensor(rng.standard_normal((10, 2)))
    counts = rng.multinomial(40, np.full(10, 0.1)), rng.multinomial(20, np.full(10, 0.1))
    x = torch.cat([atoms.repeat_interleave(torch.as_tensor(c), 0) for c in counts])
    codes = torch.arange(2).repeat_interleave(torch.tensor([40, 20]))
    found = fit_barycenter(x, codes, atoms, tau=0.0, tolerance=1e-4, steps=5000)
    histograms = np.stack([c / c.sum() for c in counts], axis=1)
    cost = compute_squared_distances(atoms, atoms).numpy()
    wanted = pot.lp.barycenter(histograms, cost, weights=np.array([2 / 3, 1 / 3]))
    wanted = np.maximum(wanted, 0) / np.maximum(wanted, 0).sum()
    at_theirs = sum(w * pot.emd2(h, wanted, cost) for w, h in zip((2 / 3, 1 / 3), histograms.T, strict=True))
    assert found.value == pytest.approx(at_theirs, rel=1e-3)


def test_no_other_weights_are_better() -> None:
    x, codes, atoms = world()
    found = fit_barycenter(x, codes, atoms, tau=0.3, tolerance=1e-3)
    rng = np.random.default_rng(0)
    for spread in (0.0, 0.1, 1.0, 3.0):
        w = found.weights.numpy() * np.exp(spread * rng.standard_normal(15)) if spread else np.ones(15)
        other = Barycenter(atoms, torch.as_tensor(w / w.sum()), 0.0, 0.0, 0.0, found.plan)
        assert exact(x, codes, other, 0.3) >= found.value - found.gap - 1e-9


@pytest.mark.parametrize("tau", [0.0, 0.5])
def test_the_dual_is_concave_and_its_supergradient_is_that_of_the_lemma(tau: float) -> None:
    x, codes, atoms = world()
    cost, lam = compute_squared_distances(x, atoms), torch.bincount(codes).double() / len(x)
    draws = torch.Generator().manual_seed(0)
    for _ in range(10):
        g, other = (torch.randn(2, 15, generator=draws, dtype=torch.float64) for _ in range(2))
        nearest = (cost - g[codes]).argmin(1)
        h = torch.stack([torch.bincount(nearest[codes == k], minlength=15) / (codes == k).sum() for k in range(2)])
        c = lam @ g
        a = torch.softmax(-c / tau, 0) if tau else torch.nn.functional.one_hot(c.argmin(), 15).double()
        slope = lam[:, None] * (a - h)
        above = compute_dual_value(cost, codes, g, tau) + float((slope * (other - g)).sum())
        assert compute_dual_value(cost, codes, other, tau) <= above + 1e-9
        shifted = g + torch.tensor([[3.0], [-7.0]])
        assert compute_dual_value(cost, codes, shifted, tau) == pytest.approx(compute_dual_value(cost, codes, g, tau))


def test_a_large_tau_makes_the_weights_even_and_none_lets_them_differ() -> None:
    x, codes, atoms = world()
    even = fit_barycenter(x, codes, atoms, tau=1e4, tolerance=1e-5).weights
    free = fit_barycenter(x, codes, atoms, tau=0.0).weights
    assert float((even - 1 / 15).abs().max()) < 1e-3
    assert float(free.max()) > 2 / 15


def test_classes_that_are_the_same_points_have_these_points_as_barycenter() -> None:
    atoms = torch.as_tensor(np.argwhere(np.ones((3, 3))).astype(float))
    found = fit_barycenter(atoms.repeat(2, 1), torch.arange(2).repeat_interleave(9), atoms, tau=0.0)
    torch.testing.assert_close(found.weights, torch.full((9,), 1 / 9, dtype=torch.float64), atol=1e-3, rtol=0)
    assert abs(found.value) < 0.01


def test_gaussians_meet_in_the_gaussian_between_them() -> None:
    """On a line, N(-1, 1) and N(3, 2^2) with weights 3/4 and 1/4 meet in N(0, 1.25^2)."""
    z = torch.distributions.Normal(0.0, 1.0).icdf((torch.arange(120, dtype=torch.float64) + 0.5) / 120)[:, None]
    x = torch.cat([z.repeat(3, 1) - 1, 2 * z + 3])
    codes = torch.arange(2).repeat_interleave(torch.tensor([360, 120]))
    found = fit_barycenter(x, codes, torch.linspace(-5, 5, 101, dtype=torch.float64)[:, None], tau=0.0, tolerance=2e-3)
    mean = float(found.weights @ found.atoms[:, 0])
    deviation = float(found.weights @ (found.atoms[:, 0] - mean).square()) ** 0.5
    assert mean == pytest.approx(0, abs=0.05)
    assert deviation == pytest.approx(1.25, abs=0.05)
    assert found.value == pytest.approx(0.75 * (1 + 0.25**2) + 0.25 * (9 + 0.75**2), rel=0.01)


def test_atoms_that_may_move_do_better_and_as_well_as_pots() -> None:
    x, codes, atoms = world(m=6)
    fixed, free = (solve(x, codes, atoms, tau=100.0) for solve in (fit_barycenter, fit_free_barycenter))
    assert free.value < fixed.value
    measures = [x[codes == k].numpy() for k in range(2)]
    even = [np.full(len(m), 1 / len(m)) for m in measures]
    theirs = pot.lp.free_support_barycenter(measures, even, atoms.numpy(), weights=np.array([60, 25]) / 85)
    at_theirs = Barycenter(torch.as_tensor(theirs), torch.full((6,), 1 / 6, dtype=x.dtype), 0.0, 0.0, 0.0, free.plan)
    at_ours = Barycenter(free.atoms, at_theirs.weights, 0.0, 0.0, 0.0, free.plan)
    assert exact(x, codes, at_ours, 0.0) == pytest.approx(exact(x, codes, at_theirs, 0.0), rel=0.1)


def test_an_earlier_solution_is_a_start_and_odd_tables_stay_finite() -> None:
    x, codes, atoms = world()
    first = fit_barycenter(x, codes, atoms, tau=0.1)
    again = fit_barycenter(x, codes, atoms, tau=0.1, start=first.plan.potentials)
    assert again.value == pytest.approx(first.value, rel=2e-3)
    same = fit_barycenter(torch.ones(10, 2), torch.arange(10) % 2, torch.ones(3, 2), tau=0.1)
    assert torch.isfinite(same.weights).all()


@pytest.mark.parametrize("tau", [-0.1, float("nan")])
def test_tau_must_not_be_negative(tau: float) -> None:
    with pytest.raises(UsageError, match="must not be negative"):
        fit_barycenter(*world(), tau=tau)
