"""Moments of the bulk: affinely equivariant, robust to outliers, and those of a multivariate t."""

from __future__ import annotations

from functools import partial

import pytest
import torch

from recveil.transport.moments import Moments
from recveil.transport.robust_moments import fit_bulk_moments


def users(n: int, d: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_an_affine_map_of_a_class_carries_its_moments() -> None:
    x, codes = users(900, 5), torch.arange(900) % 3
    A, m = users(5, 5, seed=1) + 3 * torch.eye(5, dtype=torch.float64), users(1, 5, seed=2)[0]
    before, after = (fit_bulk_moments(t, codes, 3, max_rows=1000) for t in (x, x @ A + m))
    torch.testing.assert_close(after.mean, before.mean @ A + m)
    torch.testing.assert_close(after.covariance, A.mT @ before.covariance @ A)


def test_outliers_change_the_bulk_moments_little() -> None:
    x, codes = users(1000, 4), torch.zeros(1000, dtype=torch.long)
    far = x.clone()
    far[:10] += 100
    moved = {
        "bulk": (
            fit_bulk_moments(far, codes, 1, max_rows=10**4).mean - fit_bulk_moments(x, codes, 1, max_rows=10**4).mean
        )
        .abs()
        .max(),
        "plain": (Moments.from_rows(far, codes, 1).mean - Moments.from_rows(x, codes, 1).mean).abs().max(),
    }
    assert moved["bulk"] < 0.02 < 0.9 < moved["plain"]


def test_the_shape_of_a_t_is_found() -> None:
    n, d = 20000, 3
    shape = torch.diag(torch.tensor([1.0, 4.0, 9.0], dtype=torch.float64))
    chi = torch.distributions.Chi2(torch.tensor(4.0, dtype=torch.float64))
    torch.manual_seed(0)
    x = users(n, d) @ shape.sqrt() / (chi.sample((n, 1)) / 4).sqrt()
    found = fit_bulk_moments(x, torch.zeros(n, dtype=torch.long), 1, max_rows=n)
    torch.testing.assert_close(found.covariance[0], shape, rtol=0.06, atol=0.15)


@pytest.mark.parametrize(("n", "most"), [(8, 1000), (400, 300)])
def test_too_few_and_very_many_have_plain_moments(n: int, most: int) -> None:
    x, codes = users(n, 4) ** 3, torch.zeros(n, dtype=torch.long)
    found, plain = fit_bulk_moments(x, codes, 1, max_rows=most), Moments.from_rows(x, codes, 1)
    torch.testing.assert_close(found.mean, plain.mean)
    torch.testing.assert_close(found.scatter, plain.scatter)


@pytest.mark.parametrize(("first", "most"), [(30, 10_000), (3_000, 2_000)])
def test_classes_of_unequal_sizes_are_measured_alike(first: int, most: int) -> None:
    """By the bulk of one class and all of another, classes of one distribution would differ: 0.6 and 1.0 here."""
    x, codes = users(6_000, 6) ** 3, (torch.arange(6_000) >= first).long()
    scales = fit_bulk_moments(x, codes, 2, max_rows=most).covariance.diagonal(dim1=1, dim2=2).mean(1)
    plain = Moments.from_rows(x, codes, 2).covariance.diagonal(dim1=1, dim2=2).mean(1)
    ratio = scales / plain
    assert abs(float(ratio[0] - ratio[1])) < 0.1


def test_a_class_that_does_not_span_the_space_does_not_decide() -> None:
    x, codes = users(1_000, 6) ** 3, (torch.arange(1_000) >= 6).long()
    found, plain = fit_bulk_moments(x, codes, 2, max_rows=10_000), Moments.from_rows(x, codes, 2)
    torch.testing.assert_close(found.scatter[0], plain.scatter[0])
    assert found.scatter[1].trace() < 0.8 * plain.scatter[1].trace()


def test_constant_and_repeated_columns_do_no_harm() -> None:
    x = users(300, 4)
    x[:, 1], x[:, 2] = 2.0, x[:, 0]
    found = fit_bulk_moments(x, torch.arange(300) % 2, 2, max_rows=1000)
    assert torch.isfinite(found.scatter).all()
    torch.testing.assert_close(found.covariance[:, 2], found.covariance[:, 0])
    torch.testing.assert_close(found.mean[:, 1], torch.full((2,), 2.0, dtype=torch.float64))


def test_a_class_of_users_who_are_all_alike_stays_where_it_is() -> None:
    x = users(300, 4)
    x[::2] = 3.0
    found = fit_bulk_moments(x, torch.arange(300) % 2, 2, max_rows=1000)
    assert (found.scatter[0] == 0).all()
    assert (found.mean[0] == 3).all()
    assert torch.isfinite(found.scatter[1]).all()


def test_normal_users_have_their_sample_moments() -> None:
    """Other moments depend on more of the rows than a map of them changes (transport/made_up_rows.py)."""
    x, codes = users(6_000, 6), torch.arange(6_000) % 2
    found, plain = (f(x, codes, 2) for f in (partial(fit_bulk_moments, max_rows=10_000), Moments.from_rows))
    torch.testing.assert_close(found.covariance, plain.covariance, rtol=0.02, atol=0.02)
