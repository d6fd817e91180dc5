"""Scores of tied values stay in their interval and follow the rest of the row; all others stay as they are."""

from __future__ import annotations

import numpy as np

from recveil.core.types import FloatArray
from recveil.transport.coordinates import Coordinates
from recveil.transport.normal_scores import NormalScores
from recveil.transport.row_keys import compute_row_keys
from recveil.transport.tied_scores import draw_tied_scores


def make_rectified(n: int = 2_000, correlation: float = 0.95) -> tuple[FloatArray, FloatArray]:
    """Return two correlated normal columns, and the same with the first one rectified: half of it is zero."""
    rng = np.random.default_rng(0)
    z = rng.multivariate_normal([0, 0], [[1, correlation], [correlation, 1]], n)
    return z, np.column_stack([z[:, 0].clip(0), z[:, 1]])


def encode(x: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the scores with ties in random order, and with ties drawn."""
    scores = NormalScores.fit(x)
    at_random = scores.encode(x, compute_row_keys(x))
    return at_random, draw_tied_scores(at_random, scores.find_ties(x), np.random.default_rng(1))


def test_tied_scores_stay_in_their_interval_and_others_as_they_are() -> None:
    _, x = make_rectified()
    at_random, drawn = encode(x)
    (ties,) = NormalScores.fit(x).find_ties(x)
    assert ties.column == 0
    np.testing.assert_array_equal(np.sort(ties.rows), np.flatnonzero(x[:, 0] == 0))
    assert (drawn[ties.rows, 0] >= ties.low).all()
    assert (drawn[ties.rows, 0] <= ties.high).all()
    others = np.flatnonzero(x[:, 0] > 0)
    np.testing.assert_array_equal(drawn[others], at_random[others])
    np.testing.assert_array_equal(drawn[:, 1], at_random[:, 1])


def test_tied_scores_follow_the_column_that_the_table_ties_them_to() -> None:
    _, x = make_rectified()
    at_random, drawn = encode(x)
    zero = x[:, 0] == 0
    assert abs(np.corrcoef(at_random[zero].T)[0, 1]) < 0.1
    assert np.corrcoef(drawn[zero].T)[0, 1] > 0.7
    smallest = [np.linalg.eigvalsh(np.cov(z.T))[0] for z in (at_random, drawn)]
    assert smallest[1] < 0.5 * smallest[0]  # no variance of its own where users hardly vary


def test_a_table_without_ties_is_encoded_as_before() -> None:
    z, _ = make_rectified()
    at_random, drawn = encode(z)
    np.testing.assert_array_equal(drawn, at_random)


def test_repeated_columns_of_zeros_end_in_finite_scores() -> None:
    _, x = make_rectified(200)
    twice = np.column_stack([x[:, 0], x[:, 0], np.zeros(200)])
    _, drawn = encode(twice)
    assert np.isfinite(drawn).all()


def test_drawn_scores_come_back_as_the_values_they_were() -> None:
    _, x = make_rectified()
    for kind in ("columns", "scores"):
        coordinates = Coordinates.fit(kind, x)
        z = coordinates.encode_jointly(x, compute_row_keys(x), np.random.default_rng(1))
        np.testing.assert_allclose(coordinates.decode(z), x, atol=0.02)
        assert (coordinates.decode(z)[x[:, 0] == 0, 0] == 0).all()
