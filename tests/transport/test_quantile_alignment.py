"""One round of sliced transport against sorting, and its draws against the uniform distribution."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from recveil.transport import quantile_alignment as sliced
from recveil.transport.quantile_alignment import KNOTS, align_axes, draw_rotation, fit_shifts, interpolate_shifts


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
    Q = draw_rotation(d, generator())
    torch.testing.assert_close(Q.T @ Q, torch.eye(d, dtype=torch.float64))


def test_rotations_prefer_no_direction() -> None:
    rng = generator()
    first = torch.stack([draw_rotation(3, rng)[:, 0] for _ in range(600)]).numpy()
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


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10**6), st.integers(1, 3), st.lists(st.integers(1, 20), min_size=1, max_size=9))
def test_many_classes_go_where_few_would(seed: int, d: int, sizes: list[int]) -> None:
    z, members = classes(seed, d, *sizes)
    found = []
    for few in (0, 99):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sliced, "MAX_CLASSES_PAIRWISE", few)
            found.append(align_axes(z, members))
    torch.testing.assert_close(*found, rtol=1e-9, atol=1e-9)


def test_in_one_dimension_nothing_that_equalizes_moves_less() -> None:
    z, members = classes(3, 1, 40, 40, 40)
    cost = (align_axes(z, members) - z).square().sum()
    ordered = torch.stack([z[rows].sort(dim=0).values for rows in members])
    torch.testing.assert_close(cost, (ordered - ordered.mean(0)).square().sum())


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10**6), st.lists(st.integers(1, 30), min_size=1, max_size=4))
def test_within_a_class_the_order_along_each_axis_stays(seed: int, sizes: list[int]) -> None:
    z, members = classes(seed, 2, *sizes)
    aligned = align_axes(z, members)
    for rows in members:
        order = z[rows].argsort(dim=0)
        assert (aligned[rows].gather(0, order).diff(dim=0) >= -1e-12).all()


def test_one_class_and_rows_of_no_class_are_not_moved() -> None:
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


def test_fitted_shifts_carry_new_rows_like_the_old_ones() -> None:
    z, members = classes(4, 3, 3000, 2000)
    aligned = align_axes(z, members)
    shifts = torch.stack([fit_shifts(z[rows], aligned[rows]) for rows in members])
    assert shifts.shape == (2, 3, KNOTS)
    away = torch.cat(
        [z[m] + interpolate_shifts(z[m], s) - aligned[m] for m, s in zip(members, shifts, strict=True)]
    ).abs()
    assert away.mean() < 0.02 * aligned.std()
    assert away.max() < 0.3 * aligned.std()  # the tails, where knots are far apart


def test_shifts_follow_any_straight_line_between_the_users_and_are_flat_outside() -> None:
    z = torch.linspace(-3, 3, 601, dtype=torch.float64)[:, None]
    shifts = fit_shifts(z, 2 * z)
    inside = torch.tensor([[-2.9], [-0.5], [0.0], [1.7]], dtype=torch.float64)
    torch.testing.assert_close(interpolate_shifts(inside, shifts), inside, atol=0.02, rtol=0)
    far = torch.tensor([[-1e9], [-10.0], [10.0], [1e9]], dtype=torch.float64)
    wanted = torch.tensor([[-3.0], [-3.0], [3.0], [3.0]], dtype=torch.float64)
    torch.testing.assert_close(interpolate_shifts(far, shifts), wanted)


@pytest.mark.parametrize("n", [1, 2])
def test_one_or_two_users_make_a_map_too(n: int) -> None:
    z = torch.arange(n, dtype=torch.float64)[:, None]
    torch.testing.assert_close(interpolate_shifts(z, fit_shifts(z, z + 1)), torch.ones_like(z))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_row_on_a_knot_is_interpolated(dtype: torch.dtype) -> None:
    same = torch.zeros(5, 2, dtype=dtype)  # one knot is 0
    assert (fit_shifts(same, same) == 0).all()
    outermost = torch.arange(5, dtype=dtype)[:, None]
    assert (fit_shifts(outermost, outermost + 1) == 1).all()
