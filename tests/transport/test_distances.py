from __future__ import annotations

import pytest
import torch

from recveil.transport import distances as cost
from recveil.transport.distances import compute_squared_distances, compute_typical_distance, cut_blocks


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_distances_are_those_of_the_definition_whatever_the_block(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(cost.BLOCK_NUMBERS, "cpu", size)
    x, y = drawn(23, 4), drawn(5, 4, seed=1)
    wanted = (x[:, None] - y[None]).square().sum(2)
    torch.testing.assert_close(compute_squared_distances(x, y), wanted)


def test_points_far_from_the_origin_are_not_drowned_and_none_is_negative() -> None:
    x = (drawn(50, 3) + 1000).float()
    wanted = (x[:, None] - x[None]).double().square().sum(2)
    found = compute_squared_distances(x, x)
    assert float(found.min()) >= 0
    torch.testing.assert_close(found.double(), wanted, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("n", [0, 1, 511, 512, 1000])
def test_blocks_are_every_row_once(n: int) -> None:
    rows = [i for block in cut_blocks(torch.empty(n, 512)) for i in range(block.start, block.stop)]
    assert rows == list(range(n))


def test_the_typical_distance_grows_with_the_square_of_the_unit() -> None:
    x = drawn(300, 8)
    assert compute_typical_distance(10 * x) == pytest.approx(100 * compute_typical_distance(x))
    assert compute_typical_distance(x) == pytest.approx(
        2 * 8, rel=0.2
    )  # the mean of |a - b|^2 is twice the total variance
    assert compute_typical_distance(x.repeat(20, 1)) == pytest.approx(
        compute_typical_distance(x), rel=0.1
    )  # from some of the rows


@pytest.mark.parametrize("x", [torch.ones(5, 3), torch.ones(1, 3)])
def test_without_any_distance_the_unit_is_one(x: torch.Tensor) -> None:
    assert compute_typical_distance(x) == 1.0
