"""The von Mises-Fisher distribution: against SciPy, numerical integration, and finite differences."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import integrate, special, stats

from recveil.attacks.membership import vmf
from recveil.attacks.membership.vmf import (
    PROPOSALS_PER_DRAW,
    compute_mean_length,
    draw_noise,
    draw_samples,
    kl_to_uniform,
)
from recveil.core.errors import UsageError

DIMENSIONS = (2, 3, 4, 16, 50, 66, 128, 512)
K = torch.logspace(-3, 4, 36, dtype=torch.float64)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def directions(n: int, m: int, seed: int = 0) -> torch.Tensor:
    raw = torch.randn(n, m, generator=generator(seed), dtype=torch.float64)
    return raw / raw.norm(dim=1, keepdim=True)


def sample(mu: torch.Tensor, k: torch.Tensor, chance: torch.Generator) -> torch.Tensor:
    return draw_samples(mu, k, draw_noise(*mu.shape, chance))


def log_area(m: int) -> float:
    """The log area of the unit sphere in m dimensions."""
    return math.log(2) + m / 2 * math.log(math.pi) - math.lgamma(m / 2)


def log_normalizer(k: torch.Tensor, m: int) -> torch.Tensor:
    """The term that turns `k mu.z` into the log density, by the series under test."""
    return -vmf._compute_bessel_ratio(k, m)[2] - log_area(m)


def bessel_is_there(m: int, k: np.ndarray) -> np.ndarray:
    """Where SciPy's scaled Bessel functions have not underflowed."""
    return special.ive(m / 2, k) > 1e-290


@pytest.mark.parametrize("m", DIMENSIONS)
def test_the_length_of_the_mean_is_the_ratio_of_bessel_functions(m: int) -> None:
    k = K.numpy()
    there = bessel_is_there(m, k)
    expected = special.ive(m / 2, k[there]) / special.ive(m / 2 - 1, k[there])
    np.testing.assert_allclose(compute_mean_length(K, m).numpy()[there], expected, rtol=1e-9)
    assert there.sum() > 10


@pytest.mark.parametrize("m", DIMENSIONS)
def test_the_normalizer_is_scipys(m: int) -> None:
    k = K.numpy()
    there = bessel_is_there(m, k)
    log_bessel = np.log(special.ive(m / 2 - 1, k[there])) + k[there]
    expected = (m / 2 - 1) * np.log(k[there]) - m / 2 * math.log(2 * math.pi) - log_bessel
    np.testing.assert_allclose(log_normalizer(K, m).numpy()[there], expected, atol=1e-8, rtol=1e-11)


@pytest.mark.parametrize("m", [50, 128, 512])
def test_the_series_holds_where_scipys_functions_underflow(m: int) -> None:
    """By the power series in k, which converges at once there: 0F1(m/2; k^2/4)."""
    k = torch.tensor([0.0, 1e-6, 1e-3, 0.1, 1.0], dtype=torch.float64)
    if m > 128:
        assert special.ive(m / 2, 1e-3) == 0
    terms = np.arange(20)
    scale = special.gammaln(m / 2) - special.gammaln(m / 2 + terms) - special.gammaln(terms + 1)
    power = np.array([[x**2 / 4] for x in k.tolist()]) ** terms
    series = (power * np.exp(scale)).sum(1)
    slope = (power * np.exp(scale) * (m / 2) / (m / 2 + terms)).sum(1) * k.numpy() / m
    np.testing.assert_allclose(compute_mean_length(k, m).numpy(), slope / series, rtol=1e-9, atol=1e-30)
    np.testing.assert_allclose(
        log_normalizer(k, m).numpy() - float(log_normalizer(k[:1], m)), -np.log(series), atol=1e-9
    )


@pytest.mark.parametrize(("m", "k"), [(2, 0.5), (2, 200.0), (3, 5.0), (10, 30.0), (50, 12.5), (128, 400.0)])
def test_the_divergence_is_the_integral(m: int, k: float) -> None:
    """Over the part along the mean direction: its density is known up to a constant, for vMF and for uniform."""
    top = max(k * w + (m - 3) / 2 * math.log1p(-(w**2)) for w in np.linspace(-0.9999, 0.9999, 4001)) if m > 3 else k

    def mass(w: float) -> float:
        return math.exp(k * math.cos(w) - top) * math.sin(w) ** (m - 2)  # w is the angle: no poles for m = 2

    total = integrate.quad(mass, 0, math.pi, limit=500, epsabs=0)[0]
    level = integrate.quad(lambda w: math.sin(w) ** (m - 2), 0, math.pi, limit=500, epsabs=0)[0]
    mean = integrate.quad(lambda w: mass(w) * math.cos(w), 0, math.pi, limit=500, epsabs=0)[0] / total
    expected = k * mean - top - math.log(total / level)
    got = kl_to_uniform(torch.tensor([k], dtype=torch.float64), m)
    assert float(got) == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize("m", DIMENSIONS)
def test_the_divergence_is_the_formula_of_the_paper_and_increases(m: int) -> None:
    kl = kl_to_uniform(K, m)
    torch.testing.assert_close(
        kl, K * compute_mean_length(K, m) + log_normalizer(K, m) + log_area(m), atol=1e-7, rtol=1e-9
    )
    assert (kl.diff() > -1e-9).all()
    assert float(kl[0]) == pytest.approx(0, abs=1e-6)
    assert (kl[-1] > 1).all()


@pytest.mark.parametrize("function", [kl_to_uniform, compute_mean_length])
@pytest.mark.parametrize("m", [2, 3, 50, 512])
def test_gradients_are_those_of_finite_differences(function: object, m: int) -> None:
    k = torch.tensor([0.05, 0.7, 3.0, 20.0, 150.0], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: function(x, m), k, eps=1e-4, atol=1e-7, rtol=1e-5)  # type: ignore[operator]


@pytest.mark.parametrize("m", DIMENSIONS)
def test_the_gradient_of_the_divergence_is_k_times_the_variance(m: int) -> None:
    """For large k it is (m - 1) / (2 k): nothing is lost to cancellation."""
    k = torch.tensor([1e4 * m], dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(kl_to_uniform(k, m).sum(), k)
    assert float(slope) == pytest.approx((m - 1) / (2 * 1e4 * m), rel=1e-3)


def test_single_precision_in_single_precision_out() -> None:
    k = K.float().requires_grad_()
    kl = kl_to_uniform(k, 50)
    kl.sum().backward()
    assert kl.dtype == k.grad.dtype == torch.float32
    assert torch.isfinite(k.grad).all()
    assert (k.grad > 0).all()
    torch.testing.assert_close(kl.detach().double(), kl_to_uniform(K, 50), rtol=1e-4, atol=1e-6)


@pytest.mark.thorough
@pytest.mark.parametrize("m", [2, 3, 10, 50, 512])
@pytest.mark.parametrize("k", [1e-3, 1.0, 30.0, 1e4])
def test_samples_are_unit_vectors_with_the_right_moments(m: int, k: float) -> None:
    n = 4000
    mu = directions(1, m).expand(n, m)
    z = sample(mu, torch.full((n,), k, dtype=torch.float64), generator(1))
    torch.testing.assert_close(z.norm(dim=1), torch.ones(n, dtype=torch.float64))
    length = float(compute_mean_length(torch.tensor([k], dtype=torch.float64), m))
    variance = 1 - length**2 - (m - 1) * length / k
    along = (z * mu).sum(1)
    assert abs(float(along.mean()) - length) < 4.5 * math.sqrt(variance / n)
    assert float(along.var()) == pytest.approx(variance, rel=0.2)
    across = (z - along[:, None] * mu).mean(0)  # no direction is preferred
    assert float(across.norm()) < 1.5 * math.sqrt((1 - length**2) / n) * 1.5


@pytest.mark.parametrize(("m", "k"), [(3, 2.0), (5, 20.0), (20, 10.0)])
def test_samples_have_the_distribution_of_scipy(m: int, k: float) -> None:
    n = 3000
    mu = directions(1, m)
    ours = sample(mu.expand(n, m), torch.full((n,), k, dtype=torch.float64), generator(2)) @ mu[0]
    theirs = stats.vonmises_fisher(mu[0].numpy(), k).rvs(n, random_state=3) @ mu[0].numpy()
    assert stats.ks_2samp(ours.numpy(), theirs).pvalue > 1e-3
    flat = sample(mu.expand(n, m), torch.full((n,), 0.8 * k, dtype=torch.float64), generator(2)) @ mu[0]
    assert stats.ks_2samp(flat.numpy(), theirs).pvalue < 1e-3  # the test would see a wrong concentration


@pytest.mark.thorough
@pytest.mark.parametrize("m", DIMENSIONS)
def test_sixteen_proposals_suffice_as_two_in_three_are_accepted(m: int) -> None:
    n, shares = 4000, []
    for k in (1e-3, 1.0, 10.0, 100.0, 1e4):
        wide = torch.full((n,), k, dtype=torch.float64)
        root = (4 * wide.square() + (m - 1) ** 2).sqrt()
        proposals, log_uniform, _ = draw_noise(n, m, generator(3))
        taken = vmf._accept_proposals(wide, (m - 1) / (2 * wide + root), root, m, proposals, log_uniform)
        shares.append(float((taken == proposals[:, 0]).double().mean()))
    assert min(shares) > 0.64  # two thirds less three standard errors
    assert (1 - min(shares)) ** PROPOSALS_PER_DRAW < 1e-7


def test_the_density_is_scipys() -> None:
    mu, k = directions(1, 6), torch.tensor([7.0], dtype=torch.float64)
    z = sample(mu.expand(5, 6), k.expand(5), generator())
    expected = stats.vonmises_fisher(mu[0].numpy(), 7.0).logpdf(z.numpy())
    np.testing.assert_allclose((k * (z @ mu[0]) + log_normalizer(k, 6)).numpy(), expected, atol=1e-8)


def test_samples_are_differentiable_in_both_parameters() -> None:
    raw = directions(6, 5).requires_grad_()
    k = torch.tensor([0.1, 1.0, 5.0, 20.0, 100.0, 1000.0], dtype=torch.float64, requires_grad=True)

    def draw(raw: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        return sample(raw / raw.norm(dim=1, keepdim=True), k, generator(4))

    # A step in k small enough that the same proposals are accepted.
    assert torch.autograd.gradcheck(draw, (raw, k), eps=1e-7, atol=1e-5)


def test_gradients_in_the_concentration_point_to_the_mean() -> None:
    n, m = 4000, 10
    k = torch.full((n,), 10.0, dtype=torch.float64, requires_grad=True)
    mu = directions(1, m).expand(n, m)
    (slope,) = torch.autograd.grad((sample(mu, k, generator(5)) * mu).sum(), k)
    length = float(compute_mean_length(k[:1].detach(), m))
    exact = 1 - length**2 - (m - 1) * length / 10
    assert float(slope.mean()) == pytest.approx(exact, rel=0.25)  # without the correction for acceptance
    assert (slope > 0).all()


def test_the_first_axis_as_mean_direction() -> None:
    mu = torch.zeros(50, 4, requires_grad=True)
    with torch.no_grad():
        mu[:, 0] = 1
    z = sample(mu, torch.full((50,), 100.0), generator())
    (slope,) = torch.autograd.grad(z.sum(), mu)
    assert torch.isfinite(slope).all()
    assert (z[:, 0] > 0.8).all()
    torch.testing.assert_close(z.norm(dim=1), torch.ones(50))


def test_the_same_generator_gives_the_same_samples() -> None:
    mu, k = directions(20, 4), torch.full((20,), 3.0, dtype=torch.float64)
    first = sample(mu, k, generator(1))
    assert torch.equal(first, sample(mu, k, generator(1)))
    assert not torch.equal(first, sample(mu, k, generator(2)))


def test_a_nan_concentration_gives_a_nan_sample() -> None:
    k = torch.tensor([math.nan, 5.0], dtype=torch.float64)
    finite = torch.isfinite(sample(directions(2, 4), k, generator())).all(1)
    assert finite.tolist() == [False, True]


def test_one_dimension_is_refused() -> None:
    with pytest.raises(UsageError, match="2 dimensions or more; got 1"):
        kl_to_uniform(K, 1)
    with pytest.raises(UsageError, match="got 1"):
        sample(torch.ones(3, 1), torch.ones(3), generator())
