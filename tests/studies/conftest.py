"""A world so small that a cell takes a moment, and cells that take none."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from recveil.core.random import make_generator
from recveil.data.synthetic import make_world
from recveil.studies.cells import Cell
from recveil.studies.plans import Plan

HERE = Path(__file__).parent
MODEL = {"name": "bprmf", "epochs": 2, "embedding_size": 8}


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder of data: 150 users, gender leaks, handedness does not."""
    leaks, rng = {"gender": 3.0, "handedness": 0.0}, make_generator(0, "tiny")
    world = make_world(n_users=150, n_items=60, n_interactions=3_000, leaks=leaks, rng=rng).dataset
    folder = tmp_path_factory.mktemp("data") / "tiny"
    folder.mkdir()
    interactions = {"user_id": world.user, "item_id": world.item, "timestamp": world.time}
    pyarrow.parquet.write_table(pa.table(interactions), folder / "interactions.parquet")
    labels = {name: [a.labels[code] for code in a.codes] for name, a in world.attributes.items()}
    pyarrow.parquet.write_table(pa.table({"user_id": world.user_ids, **labels}), folder / "users.parquet")
    return str(folder)


@pytest.fixture
def make_cell(tiny: str) -> Callable[..., Cell]:
    """A function that makes one cell on the tiny world: settings by keyword, axes of the grid by keyword."""

    def make(kind: str = "attribute", settings: dict[str, Any] | None = None, **axes: Any) -> Cell:
        if kind == "attribute":
            grid = {"model": [MODEL], "target": ["gender"], "panel": ["logistic"]}
            rules: dict[str, Any] = {"folds": 5}
        else:
            als = {"name": "als", "epochs": 2, "embedding_size": 4}
            grid, rules = {"target": [als], "shadow": [als], "attack": ["rules"]}, {"list_length": 5, "user_minimum": 5}
        raw = {"title": "t", "kind": kind, "grid": {"data": [tiny], **grid, **axes}}
        [cell] = Plan.parse({**raw, "settings": {"device": "cpu", **rules, **(settings or {})}}, name="p").cells()
        return cell

    return make


@pytest.fixture
def chores(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module of chores, which started processes find as well."""
    monkeypatch.syspath_prepend(str(HERE))
    monkeypatch.setenv("PYTHONPATH", str(HERE), prepend=os.pathsep)
    import chores  # type: ignore[import-not-found]

    return sys.modules[chores.__name__]
