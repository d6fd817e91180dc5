"""LEACE: nothing linear left, least displacement, one map for all."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from recveil.core.errors import DataError, UsageError
from recveil.core.types import UNDISCLOSED
from recveil.defenses.embeddings.fitted_maps import AffineMap
from recveil.defenses.embeddings.leace import Leace, fit_map
from recveil.metrics.leakage import balanced_accuracy, compute_confusion
from recveil.testing.contracts import check_embedding_defense
from recveil.transport.moments import Moments


def cloak(x: np.ndarray, codes: np.ndarray, **options: float) -> np.ndarray:
    return Leace(device="cpu", **options)(x, codes, rng=np.random.default_rng(0))


def fitted(x: np.ndarray, codes: np.ndarray) -> AffineMap:
    """The map itself, in float64: what is stored of a fit."""
    kept = Leace(device="cpu").fit(x, codes).map_
    assert kept is not None
    stage = kept.stages[0][1]
    assert isinstance(stage, AffineMap)
    return stage


def erased(ours: AffineMap) -> np.ndarray:
    """The projection on what is taken away."""
    return np.eye(len(ours.m)) - ours.A[0].numpy()


def through(ours: AffineMap, x: np.ndarray) -> np.ndarray:
    return ours(torch.tensor(x), torch.full((len(x),), UNDISCLOSED)).numpy()


def carried(x: np.ndarray, codes: np.ndarray) -> np.ndarray:
    return through(fitted(x, codes), x)


def leaky(seed: int, n: int, d: int, K: int) -> tuple[np.ndarray, np.ndarray]:
    """Classes of different sizes and means in columns that are correlated and of different spread."""
    rng = np.random.default_rng(seed)
    codes = rng.permutation(np.concatenate([np.arange(K), np.minimum(rng.integers(K + 2, size=n), K - 1)]))
    x = rng.standard_normal((len(codes), d)) + rng.standard_normal((K, d))[codes]
    return (x @ rng.standard_normal((d, d)) + 3).astype(np.float32), codes


def cross_covariance(x: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """With the one-hots of one attribute, over those who disclosed it, in standard deviations of the columns."""
    x, codes = x[codes >= 0].astype(np.float64), codes[codes >= 0]
    hot = np.eye(codes.max() + 1)[codes]
    spread = np.where(x.std(0) > 0, x.std(0), 1)
    return ((x - x.mean(0)) / spread).T @ (hot - hot.mean(0)) / len(x)


SOME_TABLE = st.tuples(st.integers(0, 10**6), st.integers(30, 200), st.integers(1, 8), st.integers(2, 5))


@settings(deadline=None, max_examples=40)
@given(SOME_TABLE)
def test_afterwards_nothing_covaries_with_any_class(sizes: tuple[int, int, int, int]) -> None:
    x, codes = leaky(*sizes)
    assert np.abs(cross_covariance(x, codes)).max() > 1e-4
    out = carried(x, codes)
    hot = np.eye(sizes[3])[codes]
    assert np.abs((out - out.mean(0)).T @ (hot - hot.mean(0))).max() / len(x) < 1e-8


@pytest.mark.parametrize("K", [2, 3, 5])
def test_logistic_regression_on_the_same_users_is_left_with_the_largest_class(K: int) -> None:
    x, codes = leaky(K, 500, 8, K)
    for table, hidden in ((x.astype(np.float64), False), (carried(x, codes), True)):
        scaled = (table - table.mean(0)) / table.std(0)
        line = LogisticRegression(C=1e3, tol=1e-10, max_iter=10_000).fit(scaled, codes)
        guess = line.predict(scaled)
        reached = balanced_accuracy(compute_confusion(codes, guess, K))
        if hidden:
            assert np.abs(line.coef_).max() < 1e-4
            assert (guess == np.bincount(codes).argmax()).all()
            assert reached == 1 / K
        else:
            assert reached > 1 / K + 0.2


@settings(deadline=None, max_examples=40)
@given(SOME_TABLE, st.floats(1e-3, 1.0))
def test_no_other_affine_map_that_erases_as_much_moves_less(sizes: tuple[int, int, int, int], size: float) -> None:
    """All of them: x -> x M + b where M sends the differences of class means to zero."""
    seed, _, d, K = sizes
    x, codes = leaky(*sizes)
    ours, wide = fitted(x, codes), x.astype(np.float64)
    gaps = np.stack([wide[codes == k].mean(0) - wide.mean(0) for k in range(K)])
    M = ours.A[0].numpy()
    b = ours.m.numpy() @ erased(ours)
    assert np.abs(gaps @ M).max() < 1e-8 * (1 + np.abs(gaps).max())
    rng = np.random.default_rng(seed)
    free = np.eye(d) - np.linalg.pinv(gaps, rcond=1e-9) @ gaps
    least = np.square(wide @ M + b - wide).sum()
    for sign in (-1, 1):
        N, c = size * sign * free @ rng.standard_normal((d, d)), size * sign * rng.standard_normal(d)
        assert np.square(wide @ (M + N) + b + c - wide).sum() >= least * (1 - 1e-9)
    along = np.linalg.pinv(gaps, rcond=1e-9) @ gaps  # straight out, as INLP does
    assert np.square((wide - wide.mean(0)) @ along).sum() >= least * (1 - 1e-9)


@settings(deadline=None, max_examples=20)
@given(SOME_TABLE)
def test_cloaking_twice_is_cloaking_once(sizes: tuple[int, int, int, int]) -> None:
    x, codes = leaky(*sizes)
    once = cloak(x, codes)
    np.testing.assert_allclose(cloak(once, codes), once, atol=1e-4)
    P = erased(fitted(x, codes))
    np.testing.assert_allclose(P @ P, P, atol=1e-7)
    assert np.linalg.matrix_rank(P, tol=1e-6) <= min(sizes[2], sizes[3] - 1)  # no more goes than must


@pytest.mark.parametrize("K", [2, 4])
def test_it_is_the_eraser_of_the_authors(K: int) -> None:
    package = pytest.importorskip("concept_erasure", reason="the authors' package concept-erasure is not installed")
    x, codes = (torch.as_tensor(a) for a in leaky(0, 400, 6, K))
    hot = torch.nn.functional.one_hot(codes, K).double()
    theirs = package.LeaceFitter.fit(x.double(), hot, shrinkage=False, constrain_cov_trace=False, svd_tol=1e-8).eraser
    np.testing.assert_allclose(carried(x.numpy(), codes.numpy()), theirs(x.double()), atol=1e-6)


def test_several_attributes_go_together_each_over_those_who_disclosed_it() -> None:
    rng = np.random.default_rng(1)
    codes = np.stack([rng.integers(2, size=500), rng.integers(4, size=500)], axis=1)
    x = rng.standard_normal((500, 8)).astype(np.float32)
    x[:, 0] += 2 * codes[:, 0]
    x[:, 1] += codes[:, 1]
    codes[:100, 0], codes[200:350, 1], codes[450:] = UNDISCLOSED, UNDISCLOSED, UNDISCLOSED
    out = carried(x, codes)
    for column in codes.T:
        assert np.abs(cross_covariance(x, column)).max() > 0.05
        assert np.abs(cross_covariance(out, column)).max() < 1e-8
    assert np.linalg.matrix_rank(erased(fitted(x, codes)), tol=1e-6) == 1 + 3


def test_the_unknown_go_through_the_same_map_as_all_others() -> None:
    x, truth = leaky(2, 400, 4, 3)
    codes = np.where(np.arange(len(x)) % 3 == 0, UNDISCLOSED, truth)
    np.testing.assert_allclose(cloak(x, codes), through(fitted(x, codes), x), atol=1e-5)


@pytest.mark.parametrize("strength", [0.6, 1.0])
def test_users_who_come_later_need_no_label_and_lose_what_a_line_reads(strength: float) -> None:
    x, codes = leaky(10, 6000, 6, 2)
    early, late = slice(4000), slice(4000, None)
    method = Leace(strength, device="cpu")
    published = method.fit_transform(x[early], codes[early])
    np.testing.assert_allclose(published, cloak(x[early], codes[early], strength=strength), atol=1e-6)
    np.testing.assert_allclose(published, method.transform(x[early]), atol=1e-5)
    moved = method.transform(x[late])
    np.testing.assert_array_equal(moved, method.transform(x[late], codes[late]))
    left = np.abs(cross_covariance(moved, codes[late])).max() / np.abs(cross_covariance(x[late], codes[late])).max()
    assert left < (0.15 if strength == 1 else 0.8)  # sampling error of 2,000 users; part of the way leaves a part
    assert strength == 1 or left > 0.2


def test_the_map_can_be_fitted_in_pieces() -> None:
    x, codes = (torch.as_tensor(a) for a in leaky(3, 400, 4, 3))
    halves = (slice(200), slice(200, None))
    everyone = [Moments.from_rows(x[s], torch.zeros_like(codes[s]), 1) for s in halves]
    classes = [Moments.from_rows(x[s], codes[s], 3) for s in halves]
    pieced = fit_map(everyone[0].merge(everyone[1]), [classes[0].merge(classes[1])])
    np.testing.assert_allclose(pieced.A, fitted(x.numpy(), codes.numpy()).A, atol=1e-9)


@pytest.mark.parametrize("t", [0.25, 0.9])
def test_strength_walks_straight(t: float) -> None:
    x, codes = leaky(4, 200, 4, 3)
    np.testing.assert_allclose(cloak(x, codes, strength=t), (1 - t) * x + t * cloak(x, codes), atol=1e-5)


def test_it_keeps_the_contract() -> None:
    check_embedding_defense(partial(Leace, device="cpu"))


def test_what_no_line_reads_is_left_alone() -> None:
    """The limit of the method: classes with equal means and different spread stay as they are."""
    rng = np.random.default_rng(5)
    half = rng.standard_normal((200, 3)).astype(np.float32)
    x = np.vstack([half, -half, 3 * half, -3 * half])  # both means are zero
    np.testing.assert_allclose(cloak(x, np.repeat([0, 1], 400)), x, atol=1e-5)


def test_constant_collinear_and_telling_columns() -> None:
    x, codes = leaky(6, 300, 5, 3)
    x[:, 1], x[:, 2], x[:, 3] = 7, x[:, 0] * 2, codes
    out = cloak(x, codes)
    assert np.abs(cross_covariance(out, codes)).max() < 1e-4
    np.testing.assert_allclose(out[:, 1], 7, atol=1e-5)
    np.testing.assert_allclose(out[:, 2], 2 * out[:, 0], atol=1e-4)
    np.testing.assert_allclose(out[:, 3], codes.mean(), atol=1e-5)


def test_a_column_too_small_to_whiten_does_not_carry_the_label_on() -> None:
    x, codes = leaky(7, 300, 3, 2)
    x[:, 1] = 1e-6 * codes
    out = cloak(x, codes)[:, 1].astype(np.float64)
    assert np.ptp(out) < 1e-3 * np.ptp(x[:, 1])


@pytest.mark.parametrize("n", [2, 5, 12])
def test_fewer_users_than_dimensions_and_a_class_of_one(n: int) -> None:
    x = np.random.default_rng(8).standard_normal((n, 20)).astype(np.float32)
    codes = np.zeros(n, dtype=np.int64)
    codes[-1] = 1
    out = cloak(x, codes)
    assert np.isfinite(out).all()
    np.testing.assert_allclose(out[codes == 1].mean(0), out[codes == 0].mean(0), atol=1e-4)
    np.testing.assert_allclose(out.mean(0), x.mean(0), atol=1e-4)


@pytest.mark.parametrize("value", [0.0, 5.0])
def test_a_table_without_any_difference_stays(value: float) -> None:
    x = np.full((10, 3), value, dtype=np.float32)
    np.testing.assert_array_equal(cloak(x, np.arange(10) % 2), x)


def test_bad_input_is_refused() -> None:
    x, codes = leaky(9, 30, 3, 2)
    with pytest.raises(DataError, match="NaN"):
        cloak(np.full_like(x, np.nan), codes)
    with pytest.raises(UsageError, match="strength must lie"):
        cloak(x, codes, strength=1.1)
    with pytest.raises(DataError, match="codes for 3 users"):
        cloak(x, codes[:3])
    np.testing.assert_array_equal(cloak(x, np.full_like(codes, UNDISCLOSED)), x)
