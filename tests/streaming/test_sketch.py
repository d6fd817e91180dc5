"""A sketch is the same whatever the partition and order, a fair sample, and as exact as it says."""

from __future__ import annotations

from functools import reduce

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles.quantiles import compute_level_error
from recveil.streaming.sketch import Sketch, compute_key_limits

N, D = 5000, 3
RNG = np.random.default_rng(0)
X = RNG.standard_normal((N, D)).astype(np.float32)
CELLS = RNG.integers(0, 3, N).astype(np.int16)
COUNTS = np.bincount(CELLS).astype(np.int64)
K = np.array([0, 200, 10**6])


def drawn(cuts: list[int], order: list[int], seed: int = 0) -> Sketch:
    below = compute_key_limits(COUNTS, np.minimum(K, COUNTS))
    bounds = [0, *sorted(cuts), N]
    pieces = [
        Sketch.from_block(X[a:b], CELLS[a:b], a, below, seed) for a, b in zip(bounds[:-1], bounds[1:], strict=True)
    ]
    return reduce(Sketch.merge, [pieces[i] for i in order]).keep_smallest(K)


@settings(deadline=None, max_examples=40)
@given(st.lists(st.integers(0, N), max_size=5), st.data())
def test_any_partition_in_any_order_is_the_same_to_the_bit(cuts: list[int], data: st.DataObject) -> None:
    got = drawn(cuts, data.draw(st.permutations(range(len(cuts) + 1))))
    wanted = drawn([], [0])
    for name in vars(got):
        np.testing.assert_array_equal(getattr(got, name), getattr(wanted, name))


def test_rows_that_came_twice_count_once() -> None:
    one = drawn([], [0])
    np.testing.assert_array_equal(one.merge(one).keep_smallest(K).rows, one.rows)


def test_each_cell_has_the_rows_it_should() -> None:
    got = drawn([], [0])
    assert np.bincount(got.cells, minlength=3).tolist() == [0, 200, COUNTS[2]]
    np.testing.assert_array_equal(got.x, X[got.rows])
    assert set(got.rows[got.cells == 2]) == set(np.flatnonzero(CELLS == 2))
    assert set(drawn([], [0], seed=1).rows[:200]) != set(got.rows[:200])


def test_quantiles_are_as_exact_as_the_bound_says_and_the_bound_is_not_idle() -> None:
    rng, n, k = np.random.default_rng(2), 50_000, 500
    x = rng.standard_normal((n, 1)).astype(np.float32)
    below = compute_key_limits(np.array([n]), np.array([k]))
    ordered, worst = np.sort(x[:, 0]), []
    for seed in range(60):
        sample = Sketch.from_block(x, np.zeros(n, np.int16), 0, below, seed).keep_smallest(np.array([k]))
        assert len(sample.rows) == k
        level = np.searchsorted(ordered, np.sort(sample.x[:, 0])) / n
        worst.append(np.abs(level - (np.arange(k) + 0.5) / k).max())
    assert max(worst) < compute_level_error(k, axes=60)
    assert max(worst) > compute_level_error(k, axes=60) / 3
