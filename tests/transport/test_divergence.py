"""The class divergence: short form, closed-form gradient, and what does not change it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles.divergence import compute_long_divergence
from recveil.transport.divergence import ClassRows, choose_ridge, compute_divergence, compute_gradient
from recveil.transport.moments import Moments

seeds, ridges = st.integers(0, 10**6), st.sampled_from([1e-4, 1e-2, 1.0])


def world(seed: int, n: int, d: int, K: int, few: int = 2) -> tuple[torch.Tensor, torch.Tensor]:
    """Classes of `few` rows and more with means and shapes of their own; a tenth of the rows belongs to none."""
    rng = np.random.default_rng(seed)
    codes = np.concatenate([np.repeat(np.arange(K), few), rng.integers(K, size=n), np.full(n // 10, -1)])
    codes = rng.permutation(codes)
    x = rng.standard_normal((len(codes), d)) @ rng.standard_normal((d, d)) + rng.standard_normal((K + 1, d))[codes]
    return torch.as_tensor(x * (1 + codes[:, None] / K)), torch.as_tensor(codes)


def short(x: torch.Tensor, classes: ClassRows, eps: float) -> torch.Tensor:
    return compute_divergence(classes.compute_moments(x), eps).value


@settings(deadline=None, max_examples=40)
@given(seeds, st.integers(1, 10), st.integers(1, 6), ridges)
def test_the_short_form_is_the_long_form(seed: int, d: int, K: int, ridge: float) -> None:
    x, codes = world(seed, 60, d, K)
    classes, eps = ClassRows.from_codes(codes), choose_ridge(x, ridge)
    wanted = float(compute_long_divergence(x, classes, eps))
    assert float(short(x, classes, eps)) == pytest.approx(wanted, rel=1e-10, abs=1e-10)


@settings(deadline=None, max_examples=40)
@given(seeds, st.integers(1, 10), st.integers(1, 6), ridges)
def test_the_gradient_is_that_of_the_long_formula(seed: int, d: int, K: int, ridge: float) -> None:
    x, codes = world(seed, 60, d, K)
    classes, eps = ClassRows.from_codes(codes), choose_ridge(x, ridge)
    (wanted,) = torch.autograd.grad(compute_long_divergence(x.requires_grad_(), classes, eps), x)
    x = x.detach()
    got = compute_gradient(x, classes, compute_divergence(classes.compute_moments(x), eps))
    torch.testing.assert_close(got, wanted, rtol=1e-8, atol=1e-10 * float(wanted.abs().max()) + 1e-12)
    assert (got[codes < 0] == 0).all()


def test_rows_that_lie_together_are_read_in_place_and_give_the_same() -> None:
    x, codes = world(0, 200, 5, 3)
    order = torch.argsort(codes)
    apart, together = ClassRows.from_codes(codes), ClassRows.from_codes(codes[order])
    assert all(isinstance(rows, slice) for rows in together.rows)
    assert not any(isinstance(rows, slice) for rows in apart.rows)
    fits = [compute_divergence(c.compute_moments(t), 0.1) for c, t in ((apart, x), (together, x[order]))]
    torch.testing.assert_close(fits[0].value, fits[1].value)
    torch.testing.assert_close(
        compute_gradient(x, apart, fits[0])[order], compute_gradient(x[order], together, fits[1])
    )


def test_the_moments_are_those_of_the_classes() -> None:
    x, codes = world(1, 100, 4, 3)
    got, wanted = ClassRows.from_codes(codes).compute_moments(x), Moments.from_rows(x, codes, 3)
    for name in ("n", "mean", "scatter"):
        torch.testing.assert_close(getattr(got, name), getattr(wanted, name))


def test_codes_without_rows_are_no_classes() -> None:
    assert len(ClassRows.from_codes(torch.tensor([5, -1, 2, 5])).rows) == 2
    assert ClassRows.from_codes(torch.tensor([-1, -1])).rows == []


@settings(deadline=None, max_examples=20)
@given(seeds, st.integers(1, 6))
def test_one_class_or_equal_classes_have_none_and_others_some(seed: int, d: int) -> None:
    x, codes = world(seed, 50, d, 3, few=10)
    assert float(short(x, ClassRows.from_codes(codes.clamp(min=0, max=0)), 1e-3)) == pytest.approx(0, abs=1e-10)
    twice = torch.cat([x, x])
    halves = ClassRows.from_codes(torch.arange(2).repeat_interleave(len(x)))
    assert float(short(twice, halves, 1e-3)) == pytest.approx(0, abs=1e-10)
    assert float(short(x, ClassRows.from_codes(codes), 1e-3)) > 1e-3


@settings(deadline=None, max_examples=20)
@given(seeds, st.integers(1, 6), st.sampled_from([1e-3, 1.0, 1e3]))
def test_place_scale_and_rotation_do_not_matter(seed: int, d: int, scale: float) -> None:
    x, codes = world(seed, 80, d, 3)
    turn = torch.linalg.qr(torch.randn(d, d, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)))[0]
    other, classes = scale * (x @ turn) + 5, ClassRows.from_codes(codes)
    got, wanted = (float(short(t, classes, choose_ridge(t, 1e-2))) for t in (other, x))
    assert got == pytest.approx(wanted, rel=1e-6, abs=1e-9)


def test_in_one_dimension_it_is_the_ratio_of_the_spreads() -> None:
    x = torch.tensor([[-1.0], [1.0], [-3.0], [3.0]], dtype=torch.float64)
    wanted = 0.5 * (np.log(5) - 0.5 * np.log(1) - 0.5 * np.log(9))
    assert float(short(x, ClassRows.from_codes(torch.tensor([0, 0, 1, 1])), 0.0)) == pytest.approx(wanted)


def test_the_ridge_is_a_share_of_the_mean_variance_and_never_zero() -> None:
    x = torch.tensor([[0.0, 5.0], [2.0, 5.0]], dtype=torch.float64)
    assert choose_ridge(x, 0.1) == pytest.approx(0.1 * 0.5)
    assert choose_ridge(torch.ones(4, 2, dtype=torch.float64), 0.1) == 0.1


def test_classes_of_fewer_rows_than_dimensions_have_a_finite_divergence_and_gradient() -> None:
    x, codes = world(2, 100, 12, 21, few=3)
    classes = ClassRows.from_codes(codes)
    fit = compute_divergence(classes.compute_moments(x), choose_ridge(x, 1e-3))
    assert torch.isfinite(compute_gradient(x, classes, fit)).all()
    assert float(fit.value) > 0
