"""Counts of what is done, failed and missing, from names of files alone."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

from recveil.studies.cell_results import CellFailure
from recveil.studies.overview import count_cells
from recveil.studies.store import create_store


def test_cells_are_counted_by_data_model_and_defense(tmp_path: Path, chores: ModuleType) -> None:
    plan, store = chores.plan(), create_store(tmp_path / "out")
    cells = plan.cells()
    assert count_cells(plan, None).missing == 20
    for cell in cells[:3]:
        (store.folder / "cells" / f"{cell.id}.json").write_text("not even JSON: it is not opened")
    (store.folder / "cells" / "0123456789abcdef.json").touch()
    store.write_failure(cells[-1], CellFailure(error="E"))
    overview = count_cells(plan, store)
    assert (overview.cells, overview.done, overview.failed, overview.missing) == (20, 3, 1, 16)
    assert (overview.unplanned, overview.failures) == (1, [cells[-1].id])
    rows = [(row.data, row.model, row.defense, row.done, row.failed, row.missing) for row in overview.rows]
    assert rows == [("a", "m", "none", 3, 0, 7), ("b", "m", "none", 0, 1, 9)]
