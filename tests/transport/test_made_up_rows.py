"""Made-up rows: alike to those of a table, and independent of them where users are few."""

from __future__ import annotations

import torch

from recveil.transport.made_up_rows import draw_made_up_rows
from recveil.transport.moments import Moments


def make_table(n: int = 4_000, d: int = 5) -> tuple[torch.Tensor, Moments]:
    draws = torch.Generator().manual_seed(0)
    tails = torch.exp(torch.randn(n, 1, generator=draws, dtype=torch.float64) / 2)
    x = torch.randn(n, d, generator=draws, dtype=torch.float64) * tails
    x = x @ torch.diag(torch.tensor([1.0, 2.0, 3.0, 4.0, 0.0], dtype=torch.float64)[:d]) + 7
    return x, Moments.from_rows(x, torch.zeros(n, dtype=torch.long), 1)


def draw(x: torch.Tensor, moments: Moments, seed: int, size: int = 20) -> torch.Tensor:
    """Draw rows for classes of `size` users; 20 users in five dimensions are few."""
    return draw_made_up_rows(x, moments, torch.full((len(x),), size), torch.Generator().manual_seed(seed))


def test_they_have_the_moments_and_the_distances_of_the_table() -> None:
    x, moments = make_table()
    rows = draw(x, moments, 1)
    assert bool(((rows.mean(0) - x.mean(0)).abs() < 0.1 * x.std(0) + 1e-9).all())
    torch.testing.assert_close(torch.cov(rows.T), torch.cov(x.T), rtol=0.2, atol=0.8)
    spread = x.std(0)[:4]
    lengths = [torch.linalg.vector_norm((t - x.mean(0))[:, :4] / spread, dim=1).sort().values for t in (x, rows)]
    torch.testing.assert_close(*lengths, rtol=0.1, atol=0.05)


def test_they_tell_nothing_of_the_rows() -> None:
    x, moments = make_table()
    products = ((draw(x, moments, 2) - x.mean(0))[:, :4] * (x - x.mean(0))[:, :4]).mean(0) / x.std(0)[:4] ** 2
    assert bool((products.abs() < 0.1).all())
    lengths = [torch.linalg.vector_norm(t - x.mean(0), dim=1) for t in (x, draw(x, moments, 2))]
    assert abs(float(torch.corrcoef(torch.stack(lengths))[0, 1])) < 0.1


def test_another_seed_is_another_draw_and_a_constant_column_stays() -> None:
    x, moments = make_table()
    rows = draw(x, moments, 3)
    assert bool((rows[:, 4] == 7).all())
    assert torch.equal(rows, draw(x, moments, 3))
    assert not torch.equal(rows, draw(x, moments, 4))


def test_for_classes_of_many_users_they_are_the_users_in_another_order() -> None:
    x, moments = make_table()
    rows = draw(x, moments, 5, size=10**12)
    assert not torch.allclose(rows, x)
    torch.testing.assert_close(rows.sort(0).values, x.sort(0).values, rtol=1e-4, atol=1e-3)


def test_in_between_the_mixture_keeps_mean_and_covariance() -> None:
    x, moments = make_table()
    rows = draw(x, moments, 6, size=40)
    assert bool(((rows.mean(0) - x.mean(0)).abs() < 0.1 * x.std(0) + 1e-9).all())
    torch.testing.assert_close(torch.cov(rows.T), torch.cov(x.T), rtol=0.2, atol=0.8)
