"""Normal scores: ranks and back, with atoms that stay atoms."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import kstest

from recveil.transport import normal_scores
from recveil.transport.normal_scores import NormalScores
from recveil.transport.row_keys import compute_row_keys


def encode(x: np.ndarray) -> tuple[NormalScores, np.ndarray]:
    """Scores of a table; ties are broken at random."""
    fitted = NormalScores.fit(x)
    keys = np.random.default_rng(0).integers(0, 2**64, len(x), dtype=np.uint64)
    return fitted, fitted.encode(x, keys)


def test_rows_come_back_whatever_their_distribution() -> None:
    rng = np.random.default_rng(1)
    x = np.column_stack([rng.standard_cauchy(1500), rng.lognormal(0, 3, 1500), rng.integers(0, 3, 1500)])
    fitted, scores = encode(x)
    np.testing.assert_allclose(fitted.decode(scores), x, rtol=1e-9)
    for column in scores.T:
        assert kstest(column, "norm").pvalue > 0.5  # the scores of 1,500 ranks, not a sample


def test_values_between_knots_are_interpolated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(normal_scores, "MAX_KNOTS", 65)
    x = np.random.default_rng(2).standard_normal((2000, 2))
    fitted, scores = encode(x)
    assert fitted.knots.shape == (65, 2)
    np.testing.assert_allclose(fitted.decode(scores), x, atol=1e-9)
    np.testing.assert_allclose(fitted.decode(fitted.encode(fitted.knots, compute_row_keys(fitted.knots))), fitted.knots)
    assert kstest(scores[:, 0], "norm").pvalue > 0.2


def test_an_atom_fills_its_interval_and_what_stays_there_comes_back_as_the_same_value() -> None:
    x = np.maximum(np.random.default_rng(3).standard_normal((1000, 1)), 0.0)
    fitted, scores = encode(x)
    at_zero = x[:, 0] == 0
    inside = scores[at_zero, 0]
    assert len(np.unique(inside)) == at_zero.sum()
    assert inside.max() < scores[~at_zero, 0].min()
    assert kstest(scores[:, 0], "norm").pvalue > 0.2
    shuffled = np.random.default_rng(4).uniform(inside.min(), inside.max(), (at_zero.sum(), 1))
    assert (fitted.decode(shuffled) == 0.0).all()


def test_scores_grow_with_the_values() -> None:
    x = np.round(np.random.default_rng(5).standard_normal((500, 1)), 1)
    _, scores = encode(x)
    order = np.argsort(scores[:, 0])
    assert (np.diff(x[order, 0]) >= 0).all()


def test_constant_columns_are_left_alone_and_so_are_columns_of_rounding_errors() -> None:
    rng = np.random.default_rng(6)
    rounding = 1.0 + 1e-15 * rng.standard_normal(200)
    x = np.column_stack([np.full(200, 7.0), rng.standard_normal(200), rounding, np.zeros(200)])
    fitted, scores = encode(x)
    np.testing.assert_array_equal(fitted.varies, [False, True, False, False])
    np.testing.assert_array_equal(scores[:, [0, 2, 3]], x[:, [0, 2, 3]])
    moved = scores + 0.5
    np.testing.assert_array_equal(fitted.decode(moved)[:, [0, 2, 3]], moved[:, [0, 2, 3]])
    tiny = NormalScores.fit(1e-30 * x[:, 1:2])
    assert tiny.varies.all()


def test_later_rows_beyond_the_range_are_cut_to_it() -> None:
    x = np.random.default_rng(7).standard_normal((400, 1))
    fitted, scores = encode(x)
    later = np.array([[-1e6], [1e6], [np.median(x)]])
    coded = fitted.encode(later, compute_row_keys(later))
    assert coded[0, 0] == scores.min()
    assert coded[1, 0] == scores.max()
    np.testing.assert_allclose(fitted.decode(coded)[:, 0], [x.min(), x.max(), np.median(x)], rtol=1e-9)
    np.testing.assert_array_equal(fitted.decode(np.array([[-50.0], [50.0]]))[:, 0], [x.min(), x.max()])


@pytest.mark.parametrize("n", [1, 2])
def test_one_or_two_rows_are_a_table(n: int) -> None:
    x = np.arange(float(n))[:, None]
    fitted, scores = encode(x)
    assert np.isfinite(scores).all()
    np.testing.assert_allclose(fitted.decode(scores), x)
