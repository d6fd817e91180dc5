"""A cell gives the same bytes wherever it is run, and plain values that JSON can hold."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch

from recveil.studies.cells import round_numbers, run_cell
from recveil.studies.plans import Cell, Plan


def cell(data: str, **grid: object) -> Cell:
    model = {"name": "bprmf", "epochs": 2, "embedding_size": 8}
    whole = {"data": [data], "model": [model], "target": ["gender"], "panel": ["logistic"], **grid}
    raw = {"title": "t", "kind": "attribute", "grid": whole, "settings": {"device": "cpu", "folds": 5}}
    [one] = Plan.parse(raw, name="p").cells()
    return one


@pytest.mark.parametrize("defense", ["none", "noise", "ldp"])
def test_same_cell_same_bytes_whether_trained_or_looked_up(defense: str, tiny: str, tmp_path: Path) -> None:
    one = cell(tiny, defense=[defense])
    threads = torch.get_num_threads()
    told = [json.dumps(run_cell(one, where).content) for where in (None, tmp_path, tmp_path)]
    assert told[0] == told[1] == told[2]
    assert torch.get_num_threads() == threads
    assert all(record["cell"] == one.id for record in json.loads(told[0])["records"])


def test_another_seed_gives_other_numbers(tiny: str, tmp_path: Path) -> None:
    first, second = (run_cell(cell(tiny, seed=[seed]), tmp_path) for seed in (0, 1))
    assert first.content["details"]["ranks"] != second.content["details"]["ranks"]
    assert set(first.seconds) >= {"train undefended", "rank", "audit"}


def test_numbers_keep_ten_digits_and_what_is_none_is_null() -> None:
    given = {"a": [1 / 3, math.nan, (math.inf, 2)], 5: {"b": 123456789.123456789, "c": True, "d": None}}
    assert round_numbers(given) == {"a": [0.3333333333, None, [None, 2]], "5": {"b": 123456789.1, "c": True, "d": None}}
