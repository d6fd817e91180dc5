"""A world small enough that a cell takes a moment, and cells that take none."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pyarrow as pa
import pyarrow.parquet
import pytest

from recveil.core.random import generator
from recveil.data.synthetic import make_world

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder of data: 150 users, gender leaks, handedness does not."""
    leaks = {"gender": 3.0, "handedness": 0.0}
    world = make_world(n_users=150, n_items=60, n_interactions=3_000, leaks=leaks, rng=generator(0, "tiny")).dataset
    folder = tmp_path_factory.mktemp("data") / "tiny"
    folder.mkdir()
    touched = {"user_id": world.user, "item_id": world.item, "timestamp": world.time}
    pyarrow.parquet.write_table(pa.table(touched), folder / "interactions.parquet")
    known = {name: [a.labels[code] for code in a.codes] for name, a in world.attributes.items()}
    pyarrow.parquet.write_table(pa.table({"user_id": world.user_ids, **known}), folder / "users.parquet")
    return str(folder)


@pytest.fixture
def chores(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module of chores, to be found by the processes that are started too."""
    monkeypatch.syspath_prepend(str(HERE))
    monkeypatch.setenv("PYTHONPATH", str(HERE))
    import chores  # type: ignore[import-not-found]

    return sys.modules[chores.__name__]
