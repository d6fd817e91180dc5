"""One round of sliced transport against sorting, and its draws against the uniform distribution."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from recveil.ot.sliced import _levels, align_axes, random_rotation


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def classes(seed: int, d: int, *sizes: int) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """Classes at different places, their rows mixed."""
    rng = generator(seed)
    codes = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    codes = codes[torch.randperm(len(codes), generator=rng)]
    z = torch.randn(len(codes), d, generator=rng, dtype=torch.float64) * (1 + codes[:, None]) + 3 * codes[:, None]
    return z, [(codes == k).nonzero()[:, 0] for k in range(len(sizes))]


@pytest.mark.parametrize("d", [1, 2, 7])
def test_a_rotation_is_orthogonal(d: int) -> None:
    Q = random_rotation(d, generator())
    torch.testing.assert_close(Q.T @ Q, torch.eye(d, dtype=torch.float64))


def test_rotations_prefer_no_direction() -> None:
    rng = generator()
    first = torch.stack([random_rotation(3, rng)[:, 0] for _ in range(600)]).numpy()
    # On the sphere in three dimensions each coordinate is uniform on [-1, 1] (Archimedes).
    for column in first.T:
        assert stats.kstest(column, stats.uniform(-1, 2).cdf).pvalue > 1e-3


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10**6), st.integers(1, 3), st.integers(1, 12), st.integers(1, 4))
def test_classes_of_equal_size_get_equal_values_along_every_axis(seed: int, d: int, size: int, K: int) -> None:
    z, members = classes(seed, d, *[size] * K)
    aligned = align_axes(z, members)
    first = aligned[members[0]].sort(dim=0).values
    for rows in members:
        torch.testing.assert_close(aligned[rows].sort(dim=0).values, first)
    # ... and these are the averages of the sorted values: the barycenter in one dimension.
    torch.testing.assert_close(first, torch.stack([z[rows].sort(dim=0).values for rows in members]).mean(0))


def test_in_one_dimension_nothing_that_equalizes_moves_less() -> None:
    z, members = classes(3, 1, 40, 40, 40)
    cost = (align_axes(z, members) - z).square().sum()
    ordered = torch.stack([z[rows].sort(dim=0).values for rows in members])
    torch.testing.assert_close(cost, (ordered - ordered.mean(0)).square().sum())


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10**6), st.lists(st.integers(1, 30), min_size=1, max_size=4))
def test_within_a_class_the_order_along_each_axis_stays(seed: int, sizes: list[int]) -> None:
    z, members = classes(seed, 2, *sizes)
    for draws in (None, generator(seed)):
        aligned = align_axes(z, members, draws)
        for rows in members:
            order = z[rows].argsort(dim=0)
            assert (aligned[rows].gather(0, order).diff(dim=0) >= -1e-12).all()


def test_one_class_stays_where_it_is_and_other_rows_are_not_touched() -> None:
    z, members = classes(0, 3, 20, 15)
    torch.testing.assert_close(align_axes(z, [torch.arange(35)]), z)
    aligned = align_axes(z, members[:1])
    torch.testing.assert_close(aligned[members[1]], z[members[1]])
    before = z.clone()
    align_axes(z, members)
    torch.testing.assert_close(z, before, rtol=0, atol=0)


def test_classes_of_unequal_size_agree_in_distribution() -> None:
    z, members = classes(1, 2, 4000, 1000)
    aligned = align_axes(z, members)
    grid = torch.linspace(0.02, 0.98, 25, dtype=torch.float64)
    one, two = (aligned[rows].quantile(grid, dim=0) for rows in members)
    assert (one - two).abs().max() < 0.02 * aligned.std()


def test_levels_are_sorted_uniform_draws() -> None:
    z = torch.zeros(1, 400, dtype=torch.float64)
    levels = _levels(50, z, generator())
    assert (levels.diff(dim=0) > 0).all()
    assert stats.kstest(levels.flatten().numpy(), "uniform").pvalue > 1e-3
    # The r-th smallest of n uniform draws is Beta(r, n + 1 - r): not midpoints with noise, but order statistics.
    for r in (1, 10, 50):
        assert stats.kstest(levels[r - 1].numpy(), stats.beta(r, 51 - r).cdf).pvalue > 1e-3


def test_midpoints_without_a_generator() -> None:
    np.testing.assert_allclose(_levels(4, torch.zeros(1, 1), None)[:, 0], [0.125, 0.375, 0.625, 0.875])


def test_sampled_classes_are_independent_samples_of_one_distribution() -> None:
    rng, gaps = generator(), []
    z, members = classes(5, 1, 60, 60)
    for _ in range(400):
        aligned = align_axes(z, members, rng)
        gaps.append(float(aligned[members[0]].mean() - aligned[members[1]].mean()))
    # Exact alignment would make every gap zero; independent samples have the standard error of two means.
    common = align_axes(z, members)
    expected = float(common.std()) * (2 / 60) ** 0.5
    assert abs(np.std(gaps) / expected - 1) < 0.15
    assert abs(np.mean(gaps)) < 4 * expected / 400**0.5
