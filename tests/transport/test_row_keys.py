"""Keys of rows: they follow from the content alone, and the uniforms drawn by them are uniform."""

from __future__ import annotations

import numpy as np
from scipy.stats import kstest

from recveil.transport.row_keys import compute_row_keys, draw_uniforms


def test_equal_rows_have_equal_keys_and_others_do_not() -> None:
    x = np.random.default_rng(0).standard_normal((2000, 3))
    keys = compute_row_keys(x)
    np.testing.assert_array_equal(compute_row_keys(x[::-1])[::-1], keys)
    np.testing.assert_array_equal(compute_row_keys(np.vstack([x, x]))[2000:], keys)
    assert len(np.unique(keys)) == 2000
    swapped = compute_row_keys(x[:, [1, 0, 2]])  # the same numbers in other columns are another row
    assert not np.isin(swapped, keys).any()
    near = np.nextafter(x, np.inf)
    assert not np.isin(compute_row_keys(near), keys).any()


def test_the_two_zeros_and_narrower_numbers_are_the_same_content() -> None:
    np.testing.assert_array_equal(
        compute_row_keys(np.array([[0.0, 1.0]])), compute_row_keys(np.array([[-0.0, 1.0]], dtype=np.float32))
    )


def test_uniforms_are_uniform_and_independent_between_streams_and_of_the_content() -> None:
    x = np.arange(20_000.0)[:, None]  # rows in a simple order must not give uniforms in one
    keys = compute_row_keys(x)
    streams = np.stack([draw_uniforms(keys, stream) for stream in range(4)])
    assert (streams >= 0).all()
    assert (streams < 1).all()
    for uniforms in streams:
        assert kstest(uniforms, "uniform").pvalue > 1e-3
    correlations = np.corrcoef(np.vstack([streams, x[:, 0], np.roll(streams[0], 1)]))
    assert np.abs(correlations - np.eye(6)).max() < 4 / 20_000**0.5
    np.testing.assert_array_equal(draw_uniforms(keys, 2), streams[2])
