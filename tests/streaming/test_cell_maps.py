"""The map of each cell, from statistics alone, is the map that is fitted in memory."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from recveil.core.errors import DataError, UsageError
from recveil.core.random import generator
from recveil.core.types import IntArray
from recveil.defenses.embeddings.gaussian import Gaussian
from recveil.defenses.embeddings.leace import Leace
from recveil.defenses.embeddings.sliced import Sliced
from recveil.streaming.cell_maps import Affine, CellMap, fit, moved_by
from recveil.streaming.sketch import Sketch
from recveil.transport.moments import Moments
from recveil.workflows.defended_release import displacement


def world(
    n: int = 4000, d: int = 4, attributes: int = 1, unknown: float = 0.1, seed: int = 0
) -> tuple[np.ndarray, IntArray]:
    rng = np.random.default_rng(seed)
    codes = np.where(rng.random((n, attributes)) < unknown, -1, rng.integers(0, 3, (n, attributes)))
    x = rng.standard_normal((n, d)) * (1 + 0.5 * (codes[:, :1] == 1)) + 2
    for j in range(attributes):
        x[:, j] += codes[:, j]
    x[:, -1] += 0.5 * x[:, 0]
    return x.astype(np.float32), codes


def gathered(x: np.ndarray, codes: IntArray) -> tuple[Moments, IntArray, np.ndarray, Sketch]:
    """Moments of all cells of the grid, and a sketch that holds everybody."""
    shape = tuple(codes.max(0) + 2)
    cells = np.ravel_multi_index(tuple((codes + 1).T), shape).astype(np.int16)
    grid = np.stack(np.unravel_index(np.arange(np.prod(shape)), shape), axis=1) - 1
    moments = Moments.of(torch.from_numpy(x), torch.from_numpy(cells), len(grid))
    rows = np.arange(len(x))
    order = np.argsort(cells, kind="stable")
    return moments, grid, cells, Sketch(rows.astype(np.uint64), rows, cells, x).take(order)


def carried(method: object, x: np.ndarray, codes: IntArray) -> tuple[np.ndarray, CellMap, Moments, Sketch]:
    moments, grid, cells, sketch = gathered(x, codes)
    fitted, _ = fit(method, moments, grid, sketch, generator(0, "cloak"))
    return fitted.float()(x, cells), fitted, moments, sketch


@pytest.mark.parametrize("strength", [1.0, 0.4])
@pytest.mark.parametrize(("attributes", "n"), [(1, 4000), (2, 4000), (2, 150), (3, 400)])
@pytest.mark.parametrize("method", [Gaussian, Leace])
def test_joint_cells_or_attributes_in_turn_it_is_the_map_of_memory(
    method: type, attributes: int, n: int, strength: float
) -> None:
    x, codes = world(n, attributes=attributes)
    got, fitted, moments, _ = carried(method(strength=strength), x, codes)
    wanted = method(strength=strength, device="cpu")(x, codes, rng=generator(0, "cloak"))
    np.testing.assert_allclose(got, wanted, atol=1e-5 * x.std())
    assert moved_by(fitted, moments, None) == pytest.approx(displacement(x, wanted), rel=1e-4)


def test_some_of_the_worlds_take_attributes_in_turn_and_others_joint_cells() -> None:
    from recveil.streaming.cell_maps import _passes

    numbers = []
    for attributes, n in ((1, 4000), (2, 4000), (2, 150)):
        moments, grid, _, _ = gathered(*world(n, attributes=attributes))
        numbers.append(len(_passes(moments, grid)))
    assert numbers == [1, 1, 6]


def test_affine_maps_compose() -> None:
    rng = np.random.default_rng(0)
    a, b = (Affine(*(torch.from_numpy(rng.standard_normal(s)) for s in ((2, 3), (2, 3, 3), (2, 3)))) for _ in range(2))
    x = torch.from_numpy(rng.standard_normal((5, 3)))
    one_by_one = b.carry(a.carry(x.clone(), 1), 1)
    torch.testing.assert_close(a.then(b).carry(x.clone(), 1), one_by_one)
    torch.testing.assert_close(a.blended(0.0).carry(x.clone(), 0), x)
    torch.testing.assert_close(a.blended(1.0).carry(x.clone(), 0), a.carry(x.clone(), 0))


def test_sliced_makes_the_classes_alike_and_moves_as_little_as_in_memory() -> None:
    rng = np.random.default_rng(3)
    codes = rng.integers(0, 2, (6000, 1))
    x = rng.standard_normal((6000, 4)).astype(np.float32)
    x[:, 0] += codes[:, 0]
    x[:, 1] = np.where(codes[:, 0] == 1, np.abs(x[:, 1]), x[:, 1])  # a shape that no moment up to the second tells
    got, fitted, moments, sketch = carried(Sliced(rounds=20), x, codes)
    affine, *_ = carried(Gaussian(), x, codes)
    wanted = Sliced(rounds=20, device="cpu")(x, codes, rng=generator(0, "cloak"))

    def gap(y: np.ndarray) -> float:
        levels = np.linspace(0.01, 0.99, 99)
        one, two = (np.quantile(y[codes[:, 0] == k, 1], levels) for k in (0, 1))
        return float(np.abs(one - two).max() / y[:, 1].std())

    assert gap(affine) > 0.3
    assert gap(got) < 0.15
    assert displacement(x, got) == pytest.approx(displacement(x, wanted), rel=0.1)
    assert moved_by(fitted, moments, sketch) == pytest.approx(displacement(x, got), rel=1e-3)


def test_users_of_unknown_class_take_the_label_free_map_only() -> None:
    x, codes = world()
    for strength in (1.0, 0.5):
        got, *_ = carried(Sliced(rounds=5, strength=strength), x, codes)
        affine, *_ = carried(Gaussian(strength=strength), x, codes)
        hidden = codes[:, 0] < 0
        np.testing.assert_allclose(got[hidden], affine[hidden], atol=1e-5)
        assert np.abs(got[~hidden] - affine[~hidden]).max() > 0.01


def test_moments_after_the_rounds_are_as_different_as_chance_has_it() -> None:
    x, codes = world(20_000, unknown=0)
    got, *_ = carried(Sliced(rounds=10), x, codes)
    exact, *_ = carried(Sliced(rounds=10, drawn=0), x, codes)
    gaps = [np.abs(y[codes[:, 0] == 0].mean(0) - y.mean(0)) / y.std(0) * 20_000**0.5 for y in (got, exact)]
    assert 0.3 < np.sqrt((gaps[0] ** 2).mean()) < 4  # standard errors
    assert np.isfinite(gaps[1]).all()


def test_what_sliced_cannot_do_here_is_said() -> None:
    x, codes = world(150, attributes=2)
    with pytest.raises(DataError, match="use --method gaussian"):
        carried(Sliced(), x, codes)
    with pytest.raises(UsageError, match="norm='unit' is not offered"):
        carried(Sliced(norm="unit"), *world())
