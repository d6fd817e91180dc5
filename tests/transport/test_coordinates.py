"""Coordinates of each kind: there and back, and as arrays."""

from __future__ import annotations

import numpy as np
import pytest

from recveil.transport.coordinates import COORDINATES, Coordinates


def make_table() -> np.ndarray:
    """Make rows of very uneven length, with an atom, a constant column, equal rows and a row of zeros."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((300, 5)) * rng.lognormal(0, 2, (300, 1))
    x[:, 1], x[:, 3] = np.maximum(x[:, 1], 0), 4.0
    x[:20] = x[20:40]
    return x


@pytest.mark.parametrize("kind", COORDINATES)
def test_rows_come_back(kind: str) -> None:
    x = make_table()
    coordinates = Coordinates.fit(kind, x)
    encoded = coordinates.encode(x, np.random.default_rng(1).integers(0, 2**64, 300, dtype=np.uint64))
    assert coordinates.kind == kind
    assert encoded.shape == (300, coordinates.count_columns(5))
    np.testing.assert_allclose(coordinates.decode(encoded), x, rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize("kind", COORDINATES)
def test_later_rows_are_coded_by_their_content_alone(kind: str) -> None:
    x = make_table()
    coordinates = Coordinates.fit(kind, x)
    encoded = coordinates.encode(x)
    np.testing.assert_array_equal(encoded[:20], encoded[20:40])
    np.testing.assert_array_equal(coordinates.encode(x[::-1].astype(np.float64))[::-1], encoded)


@pytest.mark.parametrize("kind", COORDINATES)
def test_arrays_make_the_same_coordinates_again(kind: str) -> None:
    x = make_table()
    coordinates = Coordinates.fit(kind, x)
    again = Coordinates.from_arrays(coordinates.to_arrays())
    assert again.kind == kind
    encoded = coordinates.encode(x)
    np.testing.assert_array_equal(again.encode(x), encoded)
    np.testing.assert_array_equal(again.decode(encoded), coordinates.decode(encoded))
    assert again.has_shape(5)
    assert again.has_shape(4) == (kind == "columns")


@pytest.mark.parametrize(("kind", "name"), [("scores", "levels"), ("scores", "knots"), ("polar", "scale")])
def test_a_missing_array_is_named(kind: str, name: str) -> None:
    arrays = Coordinates.fit(kind, make_table()).to_arrays()
    del arrays[name]
    with pytest.raises(KeyError, match=name):
        Coordinates.from_arrays(arrays)


def test_atoms_and_low_activity_are_spread_out() -> None:
    """Where the columns have many users at one place, the coordinates made for it have few."""
    rng = np.random.default_rng(2)
    atoms = np.maximum(rng.standard_normal((400, 2)), 0)
    uneven = rng.standard_normal((400, 3)) * rng.lognormal(0, 3, (400, 1))
    for kind, x in (("scores", atoms), ("polar", uneven)):
        keys = rng.integers(0, 2**64, 400, dtype=np.uint64)
        encoded = Coordinates.fit(kind, x).encode(x, keys)
        near = [np.mean(np.abs(t - np.median(t, axis=0)).max(1) < 0.05 * t.std(0).max()) for t in (x, encoded)]
        assert near[0] > 0.2, kind
        assert near[1] < 0.02, kind
