"""How far a study is: cells done, failed and missing, by data set, model and defense. No file of a cell is opened."""

from __future__ import annotations

from typing import Any

from recveil.studies.plans import Plan
from recveil.studies.store import Store

__all__ = ["count_cells"]

COLUMNS = ("data", "model", "defense")
KEYS = {"attribute": COLUMNS, "membership": ("data", "target", "defense")}
"""Where in a cell the columns stand: the model that is attacked is the target of a membership study."""


def count_cells(plan: Plan, store: Store | None) -> dict[str, Any]:
    """Counts in all and for each data set, model and defense; `elsewhere` are finished cells that the plan lacks."""
    finished = store.finished_ids() if store is not None else set()
    failed = store.failed_ids() if store is not None else set()
    rows: dict[tuple[str, ...], dict[str, int]] = {}
    cells = plan.cells()
    for cell in cells:
        place = tuple(cell.label(key) for key in KEYS[plan.kind])
        row = rows.setdefault(place, {"done": 0, "failed": 0, "missing": 0})
        row["done" if cell.id in finished else "failed" if cell.id in failed else "missing"] += 1
    total = {key: sum(row[key] for row in rows.values()) for key in ("done", "failed", "missing")}
    return {
        "plan": plan.name,
        "title": plan.title,
        "size": plan.size,
        "cells": len(cells),
        **total,
        "elsewhere": len(finished - {cell.id for cell in cells}),
        "rows": [{**dict(zip(COLUMNS, place, strict=True)), **row} for place, row in rows.items()],
        "failures": sorted({cell.id for cell in cells} & failed),
    }
