"""The drawn sliced barycenter from statistics and a sample: as good as in memory, with the limits it states."""

from __future__ import annotations

import numpy as np
import pytest

from oracles.cells import cloak_by_cells, compute_displacement, make_table
from recveil.core.errors import DataError, UsageError
from recveil.core.random import make_generator
from recveil.defenses.embeddings import sliced_cells
from recveil.defenses.embeddings.gaussian import Gaussian
from recveil.defenses.embeddings.sliced import Sliced


def test_sliced_makes_the_classes_alike_and_moves_as_little_as_in_memory() -> None:
    rng = np.random.default_rng(3)
    codes = rng.integers(0, 2, (6000, 1))
    x = rng.standard_normal((6000, 4)).astype(np.float32)
    x[:, 0] += codes[:, 0]
    x[:, 1] = np.where(codes[:, 0] == 1, np.abs(x[:, 1]), x[:, 1])  # a shape that no moment up to the second tells

    def gap(y: np.ndarray) -> float:
        levels = np.linspace(0.01, 0.99, 99)
        first, second = (np.quantile(y[codes[:, 0] == k, 1], levels) for k in (0, 1))
        return float(np.abs(first - second).max() / y[:, 1].std())

    got = cloak_by_cells(Sliced(rounds=20), x, codes)
    assert gap(cloak_by_cells(Gaussian(), x, codes)) > 0.3
    assert gap(got) < 0.15
    method = Sliced(rounds=20, coordinates="columns", trade=False, device="cpu")
    in_memory = method(x, codes, rng=make_generator(0, "cloak"))
    assert compute_displacement(x, got) == pytest.approx(compute_displacement(x, in_memory), rel=0.1)


@pytest.mark.parametrize("strength", [1.0, 0.5])
def test_users_of_unknown_class_take_the_label_free_map_only(strength: float) -> None:
    x, codes = make_table()
    got = cloak_by_cells(Sliced(rounds=5, strength=strength), x, codes)
    affine = cloak_by_cells(Gaussian(strength=strength), x, codes)
    undisclosed = codes[:, 0] < 0
    np.testing.assert_allclose(got[undisclosed], affine[undisclosed], atol=1e-5)
    assert np.abs(got[~undisclosed] - affine[~undisclosed]).max() > 0.01


def test_moments_after_the_rounds_are_as_different_as_chance_has_it() -> None:
    x, codes = make_table(20_000, unknown=0)
    got, exact = (cloak_by_cells(Sliced(rounds=10, drawn=drawn), x, codes) for drawn in (True, False))
    gaps = [np.abs(y[codes[:, 0] == 0].mean(0) - y.mean(0)) / y.std(0) * 20_000**0.5 for y in (got, exact)]
    assert 0.3 < np.sqrt((gaps[0] ** 2).mean()) < 4  # standard errors
    assert np.isfinite(gaps[1]).all()


def test_rounds_and_moments_share_rows_only_where_the_sample_is_whole() -> None:
    codes = np.repeat([0, 1], 50)
    learned, measured = sliced_cells._divide_sample(codes, np.array([50.0, 1000.0]))
    assert learned[:50].all()
    assert measured[:50].all()
    assert not (learned & measured)[50:].any()
    assert (learned.sum(), measured.sum()) == (60, 90)


def test_combinations_with_few_users_and_other_norms_and_coordinates_are_refused() -> None:
    with pytest.raises(DataError, match="too few users"):
        cloak_by_cells(Sliced(), *make_table(150, attributes=2))
    with pytest.raises(UsageError, match="norm='unit' is not offered"):
        cloak_by_cells(Sliced(norm="unit"), *make_table())
    with pytest.raises(UsageError, match="coordinates='polar' is not offered"):
        cloak_by_cells(Sliced(coordinates="polar"), *make_table())
