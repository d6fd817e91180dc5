"""Maps for a few users: the NumPy path gives what the torch path gives."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from recveil.core.types import FloatArray, IntArray
from recveil.defenses import DEFENSES
from recveil.defenses.embeddings import fitted_maps
from recveil.defenses.embeddings.few_rows import FEW_ROWS, SlicedRows
from recveil.defenses.embeddings.fitted_maps import FittedMap, SlicedMap
from recveil.defenses.embeddings.sliced import Sliced
from recveil.defenses.embeddings.transformers import MapTransformer
from recveil.testing.worlds import make_planted_leak
from recveil.transport.quantile_alignment import KNOTS

CPU = torch.device("cpu")
METHODS = [traits.name for traits in DEFENSES.all_traits() if traits.keeps_map]


def draw_table(seed: int, n: int = 300, d: int = 8) -> tuple[FloatArray, IntArray]:
    x, secret = make_planted_leak(n, d, 3, 2.0, rng=np.random.default_rng(seed))
    return x / np.abs(x).max(), secret.codes


@pytest.fixture
def by_torch(monkeypatch: pytest.MonkeyPatch) -> Callable[..., FloatArray]:
    """A function that carries rows by torch, however few they are."""

    def carry(fitted: FittedMap, x: FloatArray, codes: IntArray) -> FloatArray:
        with monkeypatch.context() as patch:
            patch.setattr(fitted_maps, "FEW_ROWS", 0)
            return fitted(x, codes, CPU)

    return carry


@pytest.mark.parametrize("strength", [0.4, 1.0])
@pytest.mark.parametrize("name", METHODS)
def test_few_rows_are_carried_as_torch_carries_them(
    name: str, strength: float, by_torch: Callable[..., FloatArray]
) -> None:
    x, codes = draw_table(0)
    method = DEFENSES.make(name, device="cpu", strength=strength)
    assert isinstance(method, MapTransformer)
    fitted = method.fit(x, codes).map_
    later = draw_table(1)[0]
    mixed = (np.arange(FEW_ROWS) % 5 - 1)[:, None]  # undisclosed, three classes, and one that the fit did not meet
    few = fitted(later[:FEW_ROWS], mixed, CPU)
    assert few.dtype == np.float32
    np.testing.assert_allclose(few, by_torch(fitted, later[:FEW_ROWS], mixed), atol=1e-6)
    for row in range(FEW_ROWS):
        one = fitted(later[row : row + 1], mixed[row : row + 1], CPU)
        np.testing.assert_allclose(one[0], few[row], atol=1e-6)
    assert np.abs(few - later[:FEW_ROWS]).max() > 0.01  # users move at all


def test_two_attributes_and_a_common_length_are_carried_alike(by_torch: Callable[..., FloatArray]) -> None:
    x, codes = draw_table(2)
    both = np.stack([codes, np.arange(len(x)) % 2], axis=1)
    fitted = Sliced(rounds=6, coordinates="columns", trade=False, norm="unit", device="cpu").fit(x, both).map_
    asked = np.array([[0, 1], [2, -1], [-1, 0], [-1, -1]])
    np.testing.assert_allclose(fitted(x[:4], asked, CPU), by_torch(fitted, x[:4], asked), atol=1e-6)


def test_vectors_far_beyond_the_knots_take_the_outermost_shift() -> None:
    rng = np.random.default_rng(3)
    parts = [
        torch.zeros(2),
        torch.eye(2)[None],
        torch.eye(2)[None],
        torch.from_numpy(rng.normal(size=(1, 1, 2, KNOTS))),
    ]
    stage = SlicedMap(*(part.double() for part in parts))
    far = np.array([[1e6, -1e6], [0.0, 3.0]])
    cells = np.zeros(2, dtype=np.int64)
    rows = SlicedRows.from_tensors(stage.to_tensors())
    assert rows is not None
    carried = rows.carry_rows(far, cells)
    expected = stage(torch.from_numpy(far), torch.from_numpy(cells)).numpy()
    np.testing.assert_allclose(carried, expected, rtol=1e-6, atol=1e-6)
    assert carried[1, 1] != 3.0


@pytest.mark.parametrize("kind", ["constant", "collinear"])
def test_tables_of_lower_rank_are_carried_alike(kind: str, by_torch: Callable[..., FloatArray]) -> None:
    x, codes = draw_table(4)
    x[:, 0] = 0.5 if kind == "constant" else x[:, 1] - x[:, 2]
    fitted = Sliced(rounds=7, device="cpu").fit(x, codes).map_
    later = draw_table(5)[0][:4]
    asked = np.array([[0], [1], [2], [-1]])
    carried = fitted(later, asked, CPU)
    np.testing.assert_allclose(carried, by_torch(fitted, later, asked), atol=1e-6)
    assert np.abs(carried - later).max() > 0.01


def test_a_map_without_rounds_leaves_rows_alone() -> None:
    parts = {"m": (2,), "to": (0, 2, 2), "back": (0, 2, 2), "shifts": (0, 1, 2, KNOTS)}
    rows = SlicedRows.from_tensors({name: torch.zeros(shape) for name, shape in parts.items()})
    np.testing.assert_array_equal(rows.carry_rows(np.ones((1, 2)), np.zeros(1, dtype=np.int64)), np.ones((1, 2)))
