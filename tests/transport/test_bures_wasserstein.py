"""Optimal transport between Gaussians: theorems, closed forms, and POT as a second opinion."""

from __future__ import annotations

import numpy as np
import ot as pot
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles.bures import compute_squared_bures
from recveil.transport.bures_wasserstein import (
    compute_barycenter,
    compute_transport,
    matrix_power,
)

seeds = st.integers(0, 10**6)


def spd(seed: int, d: int, *stack: int, scale: float = 1.0) -> torch.Tensor:
    """Positive definite matrices whose columns have scales from 1 down to `scale`."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(*stack, d, 2 * d + 1, generator=generator, dtype=torch.float64)
    D = torch.logspace(0, float(np.log10(scale)), d, dtype=torch.float64)
    return D[:, None] * (x @ x.mT / x.shape[-1]) * D


def shares(seed: int, K: int) -> torch.Tensor:
    return torch.rand(K, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) + 0.1


def relative(got: torch.Tensor, wanted: torch.Tensor) -> float:
    """The largest error, each entry measured by the variances of its row and column."""
    s = wanted.diagonal(dim1=-2, dim2=-1).sqrt()
    return float(((got - wanted).abs() / (s[..., :, None] * s[..., None, :])).max())


@settings(deadline=None, max_examples=25)
@given(seeds, st.integers(1, 6), st.sampled_from([-1.0, -0.5, 0.5, 2.0]))
def test_powers_are_powers(seed: int, d: int, exponent: float) -> None:
    C = spd(seed, d)
    values, vectors = np.linalg.eigh(C.numpy())
    np.testing.assert_allclose(matrix_power(C, exponent), vectors * values**exponent @ vectors.T, rtol=1e-6, atol=1e-6)


def test_a_power_of_a_singular_matrix_stays_on_its_range() -> None:
    v = torch.tensor([[3.0, 4.0, 0.0]], dtype=torch.float64)
    C = v.T @ v  # rank one, eigenvalue 25
    torch.testing.assert_close(matrix_power(C, -1.0), C / 25**2)
    torch.testing.assert_close(matrix_power(C, -0.5) @ C @ matrix_power(C, -0.5), C / 25)
    assert (matrix_power(torch.zeros(2, 2, dtype=torch.float64), -0.5) == 0).all()


@settings(deadline=None, max_examples=25)
@given(seeds, st.integers(1, 6), st.sampled_from([1.0, 1e-2, 1e-4]))
def test_transport_carries_one_covariance_to_the_other(seed: int, d: int, scale: float) -> None:
    C, B = spd(seed, d, scale=scale), spd(seed + 1, d, scale=scale)
    A = compute_transport(C, B)
    torch.testing.assert_close(A, A.mT, rtol=1e-6, atol=1e-8)
    assert torch.linalg.eigvalsh(A)[0] > 0
    assert relative(A @ C @ A, B) < 1e-4


@settings(deadline=None, max_examples=25)
@given(seeds, st.integers(1, 6))
def test_transport_back_is_the_inverse(seed: int, d: int) -> None:
    C, B = spd(seed, d), spd(seed + 1, d)
    torch.testing.assert_close(compute_transport(C, C), torch.eye(d, dtype=torch.float64), rtol=0, atol=1e-6)
    torch.testing.assert_close(
        compute_transport(C, B) @ compute_transport(B, C), torch.eye(d, dtype=torch.float64), rtol=0, atol=1e-6
    )


@settings(deadline=None, max_examples=25)
@given(seeds, st.integers(1, 5))
def test_bures_is_what_transport_costs_and_what_pot_says(seed: int, d: int) -> None:
    A, B = spd(seed, d), spd(seed + 1, d)
    T = compute_transport(A, B)
    cost = torch.trace(A + B - 2 * T @ A)  # E |x - x T|^2 for x ~ N(0, A)
    torch.testing.assert_close(compute_squared_bures(A, B), cost, rtol=1e-8, atol=1e-8)
    zero = np.zeros(d)
    wanted = pot.gaussian.bures_wasserstein_distance(zero, zero, A.numpy(), B.numpy()) ** 2
    np.testing.assert_allclose(compute_squared_bures(A, B), wanted, rtol=1e-5, atol=1e-7)


@settings(deadline=None, max_examples=25)
@given(seeds, st.integers(1, 5))
def test_bures_of_commuting_matrices_is_the_distance_of_the_deviations(seed: int, d: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    Q = torch.linalg.qr(torch.randn(d, d, generator=generator, dtype=torch.float64))[0]
    a, b = torch.rand(2, d, generator=generator, dtype=torch.float64) * 3
    A, B = (Q * a**2 @ Q.T, Q * b**2 @ Q.T)
    torch.testing.assert_close(compute_squared_bures(A, B), ((a - b) ** 2).sum(), rtol=1e-6, atol=1e-6)


def test_bures_in_one_dimension_and_stacked() -> None:
    a, b = (torch.tensor(v, dtype=torch.float64)[:, None, None] for v in ([4.0, 9.0], [1.0, 0.0]))
    assert compute_squared_bures(a, b).tolist() == pytest.approx([1.0, 9.0])


@settings(deadline=None, max_examples=20)
@given(seeds, st.integers(1, 5), st.integers(1, 4), st.sampled_from([1.0, 1e-3]))
def test_at_the_barycenter_the_maps_average_to_the_identity(seed: int, d: int, K: int, scale: float) -> None:
    C, p = spd(seed, d, K, scale=scale), shares(seed, K)
    B = compute_barycenter(C, p)
    T = ((p / p.sum())[:, None, None] * compute_transport(B.expand_as(C), C)).sum(0)
    torch.testing.assert_close(T, torch.eye(d, dtype=torch.float64), rtol=0, atol=1e-5)


@pytest.mark.parametrize("seed", range(3))
def test_nothing_near_the_barycenter_is_better(seed: int) -> None:
    C, p = spd(seed, 4, 3), shares(seed, 3)
    B = compute_barycenter(C, p)

    def cost(M: torch.Tensor) -> float:
        return float((p * compute_squared_bures(C, M.expand_as(C))).sum())

    for other in range(10):
        nudge = spd(100 * seed + other, 4) - spd(100 * seed + other + 50, 4)
        assert cost(B + 0.02 * nudge) > cost(B)


@pytest.mark.parametrize(("d", "K"), [(2, 2), (5, 3), (8, 6)])
def test_pot_finds_the_same_barycenter(d: int, K: int) -> None:
    C, p = spd(d, d, K), shares(K, K)
    _, wanted = pot.gaussian.bures_wasserstein_barycenter(
        np.zeros((K, d)), C.numpy(), weights=(p / p.sum()).numpy(), num_iter=2000, eps=1e-12
    )
    np.testing.assert_allclose(compute_barycenter(C, p), wanted, rtol=1e-5, atol=1e-6)


@settings(deadline=None, max_examples=20)
@given(seeds, st.integers(1, 5), st.integers(1, 4))
def test_the_barycenter_of_commuting_matrices_averages_the_deviations(seed: int, d: int, K: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    Q = torch.linalg.qr(torch.randn(d, d, generator=generator, dtype=torch.float64))[0]
    s = torch.rand(K, d, generator=generator, dtype=torch.float64) + 0.1
    p = shares(seed, K)
    mean = (p / p.sum()) @ s
    C = torch.stack([Q * v**2 @ Q.T for v in s])
    torch.testing.assert_close(compute_barycenter(C, p), Q * mean**2 @ Q.T, rtol=1e-7, atol=1e-8)


def test_two_classes_that_vary_along_different_axes_meet_in_the_plane() -> None:
    C = torch.diag_embed(torch.tensor([[1.0, 0.0], [0.0, 4.0]], dtype=torch.float64))
    found = compute_barycenter(C, torch.ones(2, dtype=torch.float64))
    torch.testing.assert_close(found, torch.diag(torch.tensor([0.25, 1.0], dtype=torch.float64)))


def test_weights_need_not_sum_to_one_and_one_matrix_is_its_own_barycenter() -> None:
    C = spd(0, 3, 2)
    p = torch.tensor([3.0, 1.0], dtype=torch.float64)
    torch.testing.assert_close(compute_barycenter(C, p), compute_barycenter(C, p / 4))
    torch.testing.assert_close(compute_barycenter(C[:1], p[:1]), C[0])


def test_singular_matrices_survive() -> None:
    v, w = torch.eye(3, dtype=torch.float64)[:2]
    C = torch.stack([torch.outer(v, v), torch.outer(w, w), torch.zeros(3, 3, dtype=torch.float64)])
    p = torch.ones(3, dtype=torch.float64)
    assert torch.isfinite(compute_barycenter(C, p)).all()
    assert torch.isfinite(compute_transport(C, C.flip(0))).all()
    assert compute_squared_bures(C[0], C[1]) == pytest.approx(2.0)
    assert compute_squared_bures(C[0], C[2]) == pytest.approx(1.0)
    assert (compute_barycenter(torch.zeros(2, 3, 3, dtype=torch.float64), p[:2]) == 0).all()
