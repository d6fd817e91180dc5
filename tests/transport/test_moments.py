"""Moments gathered in pieces are the moments of the whole."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from recveil.transport import moments
from recveil.transport.moments import Moments, MomentSum


def table(seed: int, n: int, d: int, K: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, d, generator=generator, dtype=torch.float64) * 3 + 1
    return x, torch.randint(-1, K, (n,), generator=generator)


def assert_same(a: Moments, b: Moments) -> None:
    for one, two in ((a.n, b.n), (a.mean, b.mean), (a.scatter, b.scatter)):
        torch.testing.assert_close(one, two, rtol=1e-9, atol=1e-9)


@settings(deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(0, 40),
    d=st.integers(1, 4),
    K=st.integers(1, 4),
    parts=st.integers(1, 6),
    data=st.data(),
)
def test_any_partition_merged_in_any_order_is_the_whole(
    seed: int, n: int, d: int, K: int, parts: int, data: st.DataObject
) -> None:
    x, codes = table(seed, n, d, K)
    home = torch.randint(parts, (n,), generator=torch.Generator().manual_seed(seed + 1))
    total = Moments.make_empty(K, d, x.device)
    for p in data.draw(st.permutations(range(parts))):
        total = total.merge(Moments.from_rows(x[home == p], codes[home == p], K))
    assert_same(total, Moments.from_rows(x, codes, K))


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 10**6))
def test_merging_is_associative(seed: int) -> None:
    a, b, c = (Moments.from_rows(*table(seed + i, 7 * i + 3, 3, 2), 2) for i in range(3))
    assert_same(a.merge(b).merge(c), a.merge(b.merge(c)))
    assert_same(a.merge(b), b.merge(a))


@pytest.mark.parametrize("block", [1, 7, 10**6])
def test_moments_are_those_of_numpy_whatever_the_block(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moments, "BLOCK_ROWS", block)
    x, codes = table(0, 60, 4, 3)
    got = Moments.from_rows(x, codes, 3)
    for k in range(3):
        rows = x[codes == k].numpy()
        assert got.n[k] == len(rows)
        np.testing.assert_allclose(got.mean[k], rows.mean(0))
        np.testing.assert_allclose(got.covariance[k], np.cov(rows.T, bias=True))
    np.testing.assert_allclose(got.weights.sum(), 1)


def test_rows_of_no_class_do_not_count() -> None:
    x, codes = table(1, 50, 3, 2)
    known = codes >= 0
    assert 0 < known.sum() < 50
    loud = torch.where(known[:, None], x, torch.nan)
    assert_same(Moments.from_rows(loud, codes, 2), Moments.from_rows(x[known], codes[known], 2))


def test_pooled_is_all_classes_as_one() -> None:
    x, codes = table(2, 50, 3, 4)
    known = x[codes >= 0].numpy()
    whole = Moments.from_rows(x, codes, 4).pool_classes()
    np.testing.assert_allclose(whole.mean[0], known.mean(0))
    np.testing.assert_allclose(whole.covariance[0], np.cov(known.T, bias=True))


def test_single_precision_with_a_large_offset_keeps_its_digits() -> None:
    generator = torch.Generator().manual_seed(0)
    x = (torch.randn(2000, 3, generator=generator, dtype=torch.float64) + 1e4).float()
    got = Moments.from_rows(x, torch.zeros(2000, dtype=torch.int64), 1)
    np.testing.assert_allclose(got.covariance[0], np.cov(x.double().numpy().T, bias=True), rtol=1e-9, atol=1e-12)
    # The power check: the textbook formula in single precision does lose them.
    naive = (x.T @ x) / len(x) - x.mean(0)[:, None] * x.mean(0)
    assert (naive.double() - got.covariance[0]).abs().max() > 0.1


def test_an_empty_class_is_empty() -> None:
    x = torch.ones(4, 2)
    got = Moments.from_rows(x, torch.zeros(4, dtype=torch.int64), 2)
    assert got.n.tolist() == [4, 0]
    assert torch.isfinite(got.covariance).all()
    assert got.weights.tolist() == [1, 0]


def test_classes_can_be_put_together_in_groups() -> None:
    x, codes = table(3, 80, 3, 4)
    groups = torch.tensor([1, -1, 0, 1, -1])  # the last is for rows of no class
    got = Moments.from_rows(x, codes, 4).group_classes(groups[:4].tolist(), 2)
    assert_same(got, Moments.from_rows(x, groups[codes], 2))


def test_moments_are_carried_by_affine_maps_like_the_rows() -> None:
    x, codes = table(4, 80, 3, 2)
    center, A, m = (
        torch.randn(s, generator=torch.Generator().manual_seed(1)).double() for s in ((2, 3), (2, 3, 3), (2, 3))
    )
    known = codes >= 0
    x, codes = x[known], codes[known]
    moved = torch.einsum("ni,nij->nj", x - center[codes], A[codes]) + m[codes]
    assert_same(Moments.from_rows(x, codes, 2).apply_affine(center, A, m), Moments.from_rows(moved, codes, 2))


def test_blocks_add_up_to_the_table_and_numbers_that_are_not_finite_are_noticed() -> None:
    x, codes = table(5, 90, 3, 3)
    total = MomentSum(3, 3, x.device)
    for start in (0, 40, 41):
        end = {0: 40, 40: 41, 41: 90}[start]
        total.add_rows(x[start:end].float(), codes[start:end].numpy().astype(np.int16))
    assert total.is_finite()
    assert_same(total.compute_moments(), Moments.from_rows(x.float(), codes, 3))
    total.add_rows(torch.full((1, 3), torch.inf), np.zeros(1, dtype=np.int16))
    assert not total.is_finite()
