"""Counts of what is done, failed and missing, from names of files alone."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

from recveil.studies.overview import count_cells
from recveil.studies.store import create_store


def test_cells_are_counted_by_data_model_and_defense(tmp_path: Path, chores: ModuleType) -> None:
    plan = chores.plan()
    store = create_store(tmp_path / "out", plan)
    cells = plan.cells()
    for cell in cells[:3]:
        (store.folder / "cells" / f"{cell.id}.json").write_text("not even JSON: it is not opened")
    (store.folder / "cells" / "0123456789abcdef.json").touch()
    store.write_failure(cells[-1].id, {"error": "E"})
    found = count_cells(plan, store)
    assert (found["cells"], found["done"], found["failed"], found["missing"]) == (20, 3, 1, 16)
    assert found["elsewhere"] == 1
    assert found["failures"] == [cells[-1].id]
    assert found["rows"] == [
        {"data": "a", "model": "m", "defense": "none", "done": 3, "failed": 0, "missing": 7},
        {"data": "b", "model": "m", "defense": "none", "done": 0, "failed": 1, "missing": 9},
    ]


def test_before_anything_is_run_all_is_missing(chores: ModuleType) -> None:
    assert count_cells(chores.plan(), None)["missing"] == 20
