"""The map of each cell, fitted from statistics alone, is the map that is fitted in memory."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from oracles.cells import apply_by_cell, cloak_by_cells, gather_statistics, make_table
from recveil.core.random import make_generator
from recveil.defenses import DEFENSES
from recveil.defenses.embeddings.cell_maps import CellAffine, CellMap, StreamingDefense, plan_partitions
from recveil.defenses.embeddings.gaussian import Gaussian
from recveil.defenses.embeddings.leace import Leace
from recveil.defenses.embeddings.sliced import Sliced


@pytest.mark.thorough
@pytest.mark.parametrize("strength", [1.0, 0.4])
@pytest.mark.parametrize(("attributes", "n"), [(1, 4000), (2, 4000), (2, 150), (3, 400)])
@pytest.mark.parametrize("method", [Gaussian, Leace])
def test_joint_cells_or_attributes_in_turn_it_is_the_map_of_memory(
    method: type, attributes: int, n: int, strength: float
) -> None:
    x, codes = make_table(n, attributes=attributes)
    expected = method(strength=strength, device="cpu")(x, codes, rng=make_generator(0, "cloak"))
    np.testing.assert_allclose(cloak_by_cells(method(strength=strength), x, codes), expected, atol=1e-5 * x.std())


def test_small_joint_cells_are_replaced_by_attributes_in_turn() -> None:
    tables = [make_table(n, attributes=attributes) for attributes, n in ((1, 4000), (2, 4000), (2, 150))]
    assert [len(plan_partitions(gather_statistics(x, codes)[0])) for x, codes in tables] == [1, 1, 6]


def test_affine_maps_compose() -> None:
    rng = np.random.default_rng(0)
    shapes = ((2, 3), (2, 3, 3), (2, 3))
    a, b = (CellAffine(*(torch.from_numpy(rng.standard_normal(s)) for s in shapes)) for _ in range(2))
    x = torch.from_numpy(rng.standard_normal((5, 3)))
    in_turn = b.carry_rows(a.carry_rows(x.clone(), 1), 1)
    torch.testing.assert_close(a.compose_with(b).carry_rows(x.clone(), 1), in_turn)
    half = (x + a.carry_rows(x.clone(), 0)) / 2
    torch.testing.assert_close(a.blend_with_identity(0.5).carry_rows(x.clone(), 0), half)


@pytest.mark.parametrize("method", [Gaussian(strength=0.5), Sliced(rounds=2, strength=0.5)])
def test_a_map_survives_as_arrays(method: StreamingDefense) -> None:
    x, codes = make_table(800)
    statistics, cells = gather_statistics(x, codes)
    fitted, _ = method.fit_cells(statistics, make_generator(0, "cloak"))
    again = CellMap.from_arrays(fitted.to_arrays())
    np.testing.assert_array_equal(apply_by_cell(again, x, cells), apply_by_cell(fitted, x, cells))


def test_defenses_that_stream_are_those_with_the_trait() -> None:
    traits = [traits for traits in DEFENSES.all_traits() if traits.place == "embeddings" and traits.is_installed]
    assert any(t.streams for t in traits)
    for t in traits:
        assert isinstance(DEFENSES.make(t.name), StreamingDefense) == t.streams
