"""A cell gives the same bytes wherever it is run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from recveil.studies.cells import Cell
from recveil.studies.measurement import run_cell


@pytest.mark.thorough
@pytest.mark.parametrize("defense", ["noise", "ldp"])
def test_same_cell_same_bytes_whether_trained_or_looked_up(
    defense: str, make_cell: Callable[..., Cell], tmp_path: Path
) -> None:
    cell, threads = make_cell(settings={"folds": 2}, leak_ratio=[0.5], defense=[defense]), torch.get_num_threads()
    results = [run_cell(cell, cache) for cache in (None, tmp_path, tmp_path)]
    assert len({result.to_json() for result, _ in results}) == 1
    assert set(results[0][1]) >= {"train undefended", "rank", "audit"}
    assert torch.get_num_threads() == threads


def test_another_seed_gives_other_numbers(make_cell: Callable[..., Cell], tmp_path: Path) -> None:
    first, second = (run_cell(make_cell(seed=[seed]), tmp_path)[0] for seed in (0, 1))
    assert first.attribute_details.ranks != second.attribute_details.ranks
