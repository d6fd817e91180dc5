"""Rows go through the map of their cell whatever the block, and the displacement is that of the rows."""

from __future__ import annotations

import numpy as np
import pytest

from oracles.cells import apply_by_cell, compute_displacement, gather_statistics, make_table
from recveil.core.random import make_generator
from recveil.defenses.embeddings.cell_maps import StreamingDefense
from recveil.defenses.embeddings.gaussian import Gaussian
from recveil.defenses.embeddings.leace import Leace
from recveil.defenses.embeddings.sliced import Sliced
from recveil.streaming.map_application import apply_cell_map, measure_displacement


@pytest.mark.parametrize("method", [Gaussian(strength=0.4), Leace(), Sliced(rounds=20)])
def test_rows_are_carried_by_their_cells_and_the_displacement_is_theirs(
    method: StreamingDefense, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recveil.streaming.map_application.BLOCK_ROWS", 300)
    x, codes = make_table(4000, attributes=1 if method.needs_sample else 2)
    statistics, cells = gather_statistics(x, codes)
    fitted, _ = method.fit_cells(statistics, make_generator(0, "cloak"))
    got = apply_cell_map(fitted.to_float32(), x, cells)
    np.testing.assert_allclose(got, apply_by_cell(fitted, x, cells), atol=1e-5)
    assert measure_displacement(fitted, statistics) == pytest.approx(compute_displacement(x, got), rel=1e-3)
    assert np.abs(got - x).max() > 0.1


def test_a_block_of_one_cell_is_carried_like_any_other_and_left_as_it_is() -> None:
    x, codes = make_table(4000, attributes=2)
    statistics, cells = gather_statistics(x, codes)
    fitted = Gaussian().fit_cells(statistics, make_generator(0, "cloak"))[0].to_float32()
    alone, before = x[cells == cells[0]], x.copy()
    got = apply_cell_map(fitted, alone, cells[cells == cells[0]])
    np.testing.assert_allclose(got, apply_cell_map(fitted, x, cells)[cells == cells[0]], atol=1e-6)
    np.testing.assert_array_equal(alone, before[cells == cells[0]])
    assert apply_cell_map(fitted, x[:0], cells[:0]).shape == (0, x.shape[1])
