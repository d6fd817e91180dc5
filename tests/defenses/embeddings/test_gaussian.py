"""Gaussian transport: equal moments, least displacement, odd tables."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles.bures import compute_squared_bures
from recveil.core.types import UNDISCLOSED
from recveil.defenses.embeddings.gaussian import Gaussian, fit_map
from recveil.transport.bures_wasserstein import compute_barycenter
from recveil.transport.moments import Moments


def cloak(x: np.ndarray, codes: np.ndarray, **options: float) -> np.ndarray:
    return Gaussian(device="cpu", **options)(x, codes, rng=np.random.default_rng(0))


def leaky(seed: int, n: int, d: int, K: int, scale: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Classes of different sizes with means, covariances and shapes of their own, columns down to `scale`."""
    rng = np.random.default_rng(seed)
    codes = rng.permutation(np.concatenate([np.repeat(np.arange(K), 3 * d), rng.integers(K, size=n)]))
    turns, means = np.linalg.qr(rng.standard_normal((K, d, d)))[0], rng.standard_normal((K, d))
    turns *= rng.uniform(0.5, 2, (K, d, 1))
    x = np.einsum("nd,nde->ne", rng.exponential(size=(len(codes), d)), turns[codes]) + 2 * means[codes]
    return (x * np.logspace(0, np.log10(scale), d)).astype(np.float32), codes


def assert_same_moments(x: np.ndarray, codes: np.ndarray, atol: float = 1e-4) -> None:
    """Class means and covariances agree, measured in standard deviations of the columns."""
    wide = x.astype(np.float64) / np.where(x.std(0) > 0, x.std(0), 1)
    classes = [wide[codes == k] for k in np.unique(codes[codes >= 0])]
    for part in classes[1:]:
        np.testing.assert_allclose(part.mean(0), classes[0].mean(0), atol=atol)
        np.testing.assert_allclose(np.cov(part.T, bias=True), np.cov(classes[0].T, bias=True), atol=atol)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10**6), st.integers(1, 8), st.integers(2, 5), st.sampled_from([1.0, 1e-2, 1e-4]))
def test_afterwards_class_means_and_covariances_agree(seed: int, d: int, K: int, scale: float) -> None:
    x, codes = leaky(seed, 200, d, K, scale)
    with pytest.raises(AssertionError):
        assert_same_moments(x, codes)
    assert_same_moments(cloak(x, codes), codes)


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(2, 4))
def test_the_displacement_is_the_least_there_is(seed: int, d: int, K: int) -> None:
    """Gelbrich: sum_k p_k (|m_k - m|^2 + bures(C_k, B)), and the common mean is the mean of all."""
    x, codes = leaky(seed, 100, d, K)
    moments = Moments.from_rows(torch.as_tensor(x), torch.as_tensor(codes), K)
    m = moments.pool_classes().mean[0]
    B = compute_barycenter(moments.covariance, moments.weights)
    apart = (moments.mean - m).square().sum(1) + compute_squared_bures(
        moments.covariance, B.expand_as(moments.covariance)
    )
    out = cloak(x, codes)
    moved = np.square(out.astype(np.float64) - x).sum(1).mean()
    assert moved == pytest.approx(float((moments.weights * apart).sum()), rel=1e-4)
    np.testing.assert_allclose(out.mean(0), x.mean(0), atol=1e-3)


@pytest.mark.parametrize("t", [0.25, 0.5, 0.9])
def test_strength_walks_straight(t: float) -> None:
    x, codes = leaky(0, 200, 4, 3)
    np.testing.assert_allclose(cloak(x, codes, strength=t), (1 - t) * x + t * cloak(x, codes), atol=1e-5)


def test_cloaking_twice_is_cloaking_once() -> None:
    x, codes = leaky(1, 300, 5, 3)
    once = cloak(x, codes)
    np.testing.assert_allclose(cloak(once, codes), once, atol=1e-4)


def test_constant_and_collinear_columns() -> None:
    x, codes = leaky(2, 200, 6, 3)
    x[:, 2] = x[:, 0] + x[:, 1]
    x[:, 3] = 7
    out = cloak(x, codes)
    assert_same_moments(out, codes)
    np.testing.assert_allclose(out[:, 2], out[:, 0] + out[:, 1], atol=1e-4)
    np.testing.assert_allclose(out[:, 3], 7, atol=1e-5)


def test_a_column_that_is_the_label_becomes_constant() -> None:
    x, codes = leaky(3, 200, 4, 3)
    x[:, 1] = codes
    out = cloak(x, codes)
    assert_same_moments(out, codes)
    np.testing.assert_allclose(out[:, 1], codes.mean(), atol=1e-5)


def test_a_column_too_small_to_equalize_does_not_carry_the_label_on() -> None:
    rng = np.random.default_rng(0)
    codes = np.arange(400) % 2
    x = rng.standard_normal((400, 3))
    x[:, 1] *= 1e-7 * (1 + 4 * codes)
    out = cloak(x.astype(np.float32), codes).astype(np.float64)
    before, after = (np.log(t[codes == 1, 1].std() / t[codes == 0, 1].std()) for t in (x, out))
    assert before > 1
    assert abs(after) < 0.01


@pytest.mark.parametrize("value", [0.0, 5.0])
def test_a_table_without_any_difference_stays(value: float) -> None:
    x = np.full((10, 3), value, dtype=np.float32)
    np.testing.assert_array_equal(cloak(x, np.arange(10) % 2), x)


@pytest.mark.parametrize("few", [1, 2, 7, 8])
def test_a_class_with_fewer_users_than_dimensions_is_moved_and_stays_finite(few: int) -> None:
    d = 8
    x, codes = leaky(4, 200, d, 2)
    small = np.flatnonzero(codes == 1)[:few]
    keep = np.sort(np.concatenate([np.flatnonzero(codes == 0), small]))
    x, codes = x[keep], codes[keep]
    out = cloak(x, codes)
    assert np.isfinite(out).all()
    np.testing.assert_allclose(out[codes == 0].mean(0), out[codes == 1].mean(0), atol=1e-3)
    assert fit_map(Moments.from_rows(torch.as_tensor(x), torch.as_tensor(codes), 2)).regularized
    # Nobody is thrown far: the ridge bounds the stretching.
    assert np.linalg.norm(out - x) < 3 * np.linalg.norm(x - x.mean(0))


def test_enough_users_need_no_ridge_even_where_columns_differ_much_in_scale() -> None:
    x, codes = leaky(5, 300, 4, 3, scale=1e-4)
    assert not fit_map(Moments.from_rows(torch.as_tensor(x), torch.as_tensor(codes), 3)).regularized


def test_unknown_users_go_through_one_map_that_needs_no_label() -> None:
    x, truth = leaky(6, 400, 3, 2)
    codes = np.where(np.arange(len(x)) % 4 == 0, UNDISCLOSED, truth)
    out, unknown = cloak(x, codes), codes == UNDISCLOSED
    assert_same_moments(out[~unknown], codes[~unknown])
    # One affine map for all of them, whatever they really are, and it carries the pooled moments to the common ones.
    inputs = np.column_stack([x, np.ones(len(x))]).astype(np.float64)
    fitted = np.linalg.lstsq(inputs[unknown], out[unknown], rcond=None)[0]
    np.testing.assert_allclose(inputs[unknown] @ fitted, out[unknown], atol=1e-4)
    carried = inputs[~unknown] @ fitted
    known = out[~unknown].astype(np.float64)
    np.testing.assert_allclose(carried.mean(0), known.mean(0), atol=1e-3)
    np.testing.assert_allclose(np.cov(carried.T), np.cov(known.T), atol=1e-3)


def test_the_unknown_have_no_say_in_where_the_known_go() -> None:
    x, codes = leaky(7, 200, 3, 2)
    more = np.vstack([x, 100 + x[:20]]).astype(np.float32)
    out = cloak(more, np.concatenate([codes, np.full(20, UNDISCLOSED)]))
    np.testing.assert_allclose(out[: len(x)], cloak(x, codes), atol=1e-5)


def test_joint_cells_hide_what_only_a_pair_of_attributes_says() -> None:
    rng = np.random.default_rng(8)
    codes = rng.integers(2, size=(600, 2))
    x = rng.standard_normal((600, 3)).astype(np.float32)
    x[:, 0] += 3 * (codes[:, 0] ^ codes[:, 1])  # neither attribute alone shows
    assert_same_moments(cloak(x, codes), codes[:, 0] * 2 + codes[:, 1])


def test_attributes_in_turn_are_both_hidden_where_joint_cells_are_too_small() -> None:
    rng = np.random.default_rng(9)
    n, d = 600, 16
    codes = np.stack([rng.integers(2, size=n), rng.integers(12, size=n)], axis=1)
    assert np.bincount(codes[:, 0] * 12 + codes[:, 1]).min() < 2 * d
    x = rng.standard_normal((n, d)).astype(np.float32)
    x[:, 0] += 2 * codes[:, 0]
    x[:, 1] += codes[:, 1]
    out = cloak(x, codes)
    for column in codes.T:
        before, after = (np.var([t[column == k].mean(0) for k in np.unique(column)], axis=0).sum() for t in (x, out))
        assert after < 1e-3 * before


def test_who_disclosed_one_of_two_attributes_is_protected_in_that_one() -> None:
    rng = np.random.default_rng(10)
    codes = rng.integers(2, size=(800, 2))
    x = rng.standard_normal((800, 3)).astype(np.float32)
    x[:, 0] += 3 * codes[:, 0]
    seen = codes.copy()
    seen[::3, 1] = UNDISCLOSED
    assert_same_moments(cloak(x, seen), codes[:, 0])


def test_the_map_can_be_fitted_in_pieces_and_used_on_later_users() -> None:
    x, codes = (torch.as_tensor(a) for a in leaky(11, 400, 4, 3))
    half = len(x) // 2
    parts = [Moments.from_rows(x[s], codes[s], 3) for s in (slice(half), slice(half, None))]
    carried = fit_map(parts[0].merge(parts[1]))(x, codes)
    np.testing.assert_allclose(carried, cloak(x.numpy(), codes.numpy()), atol=1e-4)
