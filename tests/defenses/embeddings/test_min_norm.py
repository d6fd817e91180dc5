"""The two-task weight and the descent: torchjd as a second opinion, the poster's slip, what a step promises."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torchjd.aggregation import MGDA

from recveil.defenses.embeddings.min_norm import compute_task_weight, descend_tasks


def two(seed: int, lean: float = 0.0, length: float = 1.0) -> tuple[torch.Tensor, torch.Tensor]:
    """Two gradients, the second leaning on the first and of another length."""
    generator = torch.Generator().manual_seed(seed)
    g_u, g_r = torch.randn(2, 6, 3, generator=generator, dtype=torch.float64)
    return g_u, length * (g_r + lean * g_u)


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 10**6), st.sampled_from([-2.0, 0.0, 0.5, 2.0]), st.sampled_from([0.1, 1.0, 10.0]))
def test_it_is_torchjds(seed: int, lean: float, length: float) -> None:
    g_u, g_r = two(seed, lean, length)
    a = compute_task_weight(g_u, g_r)
    wanted = MGDA(epsilon=1e-12)(torch.stack([g_u.reshape(-1), g_r.reshape(-1)])).reshape(g_u.shape)
    torch.testing.assert_close(a * g_u + (1 - a) * g_r, wanted, rtol=1e-6, atol=1e-8)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10**6), st.sampled_from([-1.0, 0.0, 3.0]), st.sampled_from([0.0, 0.1, 0.5]))
def test_no_other_weight_between_the_limits_gives_a_shorter_step(seed: int, lean: float, floor: float) -> None:
    g_u, g_r = two(seed, lean)
    a = compute_task_weight(g_u, g_r, floor=floor)
    assert floor <= a <= 1
    lengths = [float((b * g_u + (1 - b) * g_r).norm()) for b in torch.linspace(floor, 1, 41).tolist()]
    assert float((a * g_u + (1 - a) * g_r).norm()) <= min(lengths) + 1e-12


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10**6))
def test_between_the_limits_the_step_lowers_both_losses(seed: int) -> None:
    g_u, g_r = two(seed)
    a = compute_task_weight(g_u, g_r)
    step = a * g_u + (1 - a) * g_r
    assert float((step * g_u).sum()) > -1e-12
    assert float((step * g_r).sum()) > -1e-12


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10**6))
def test_the_posters_numerator_gives_one_less_and_so_the_floor(seed: int) -> None:
    """The poster writes (g_r - g_u).g_u where the slides have (g_r - g_u).g_r: clipped, it never leaves the floor."""
    g_u, g_r = two(seed)
    gap = g_r - g_u
    slides, poster = (float((gap * g).sum() / gap.square().sum()) for g in (g_r, g_u))
    assert poster == pytest.approx(slides - 1)
    assert compute_task_weight(g_u, g_r) == pytest.approx(min(max(slides, 0), 1))
    assert poster <= 0 or slides > 1


def test_at_the_start_of_the_data_free_form_only_the_floor_moves_anything() -> None:
    g_u, _ = two(0)
    still = torch.zeros_like(g_u)
    assert compute_task_weight(g_u, still) == 0
    assert compute_task_weight(g_u, still, floor=0.1) == 0.1


def test_equal_gradients_leave_the_weight_open() -> None:
    g_u, _ = two(0)
    assert compute_task_weight(g_u, g_u) == 0.5
    assert compute_task_weight(0 * g_u, 0 * g_u, floor=0.1) == 0.5


def test_two_bowls_end_between_their_centers_and_the_start_is_untouched() -> None:
    """The Pareto-stationary points of |x - a|^2 and |x - b|^2 are the segment from a to b."""
    a, b = torch.tensor([[0.0, 0.0]]).double(), torch.tensor([[1.0, 0.0]]).double()
    start = torch.tensor([[0.25, 2.0]]).double()

    def bowl(center: torch.Tensor):
        return lambda x: (float((x - center).square().sum()), 2 * (x - center))

    found = descend_tasks(start, bowl(a), bowl(b), compute_task_weight, rate=0.02, steps=2000)
    assert start.tolist() == [[0.25, 2.0]]
    assert abs(float(found[0, 1])) < 0.01
    assert 0 <= float(found[0, 0]) <= 1


def test_it_stops_when_the_loss_has_settled_and_at_the_last_step_at_the_latest() -> None:
    calls = []

    def flat(x: torch.Tensor) -> tuple[float, torch.Tensor]:
        calls.append(1)
        return 1.0, torch.zeros_like(x)

    x = torch.ones(2, 2).double()
    descend_tasks(x, flat, lambda y: (1.0, torch.zeros_like(y)), compute_task_weight, rate=1e-3, steps=500)
    assert len(calls) == 21
    calls.clear()
    descend_tasks(x, flat, lambda y: (float(len(calls)), torch.ones_like(y)), lambda u, r: 0.0, rate=1e-3, steps=50)
    assert len(calls) == 50
