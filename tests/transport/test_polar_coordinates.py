"""Polar coordinates: there and back, at any scale, with rows of zeros and columns that do not vary."""

from __future__ import annotations

import numpy as np
import pytest

from recveil.transport.polar_coordinates import PolarCoordinates


@pytest.mark.parametrize("scale", [1.0, 1e-30, 1e30])
def test_rows_come_back_at_any_scale_and_constant_columns_stay(scale: float) -> None:
    x = scale * np.random.default_rng(0).standard_normal((50, 4))
    x[:, 2] = 7.0
    coordinates = PolarCoordinates.fit(x)
    encoded = coordinates.encode(x)
    assert encoded.shape == (50, 5)
    np.testing.assert_allclose(np.linalg.norm(encoded[:, 1:4], axis=1), 1)
    np.testing.assert_allclose(coordinates.decode(encoded), x, rtol=1e-9)
    np.testing.assert_array_equal(coordinates.decode(encoded)[:, 2], 7.0)


def test_a_row_of_zeros_counts_as_the_shortest_row_and_comes_back() -> None:
    x = np.array([[3.0, 4.0], [0.0, 0.0], [-1.0, 0.0]])
    coordinates = PolarCoordinates.fit(x)
    encoded = coordinates.encode(x)
    assert encoded[0, 0] - encoded[2, 0] == pytest.approx(np.log(5))
    assert encoded[1, 0] == encoded[2, 0]
    np.testing.assert_allclose(coordinates.decode(encoded), x, atol=1e-12)


def test_a_table_of_equal_rows_is_left_alone() -> None:
    x = np.full((4, 3), 2.0)
    coordinates = PolarCoordinates.fit(x)
    np.testing.assert_array_equal(coordinates.decode(coordinates.encode(x)), x)
