"""How far a study is: cells done, failed and missing, by data set, model and defense. No file of a cell is opened."""

from __future__ import annotations

from recveil.core.study_parts import OverviewRow, StudyOverview
from recveil.studies.plans import Plan
from recveil.studies.store import Store

__all__ = ["count_cells"]

AXES = {"attribute": ("data", "model", "defense"), "membership": ("data", "target", "defense")}
"""Axes of the columns data, model and defense: the attacked model of a membership study is its target."""


def count_cells(plan: Plan, store: Store | None) -> StudyOverview:
    """Count the cells of a plan, in all and for each data set, model and defense."""
    finished = store.finished_ids() if store is not None else set()
    failed = store.failed_ids() if store is not None else set()
    cells = plan.cells()
    counts: dict[tuple[str, ...], dict[str, int]] = {}
    for cell in cells:
        labels = tuple(cell.label(axis) for axis in AXES[plan.kind])
        row = counts.setdefault(labels, {"done": 0, "failed": 0, "missing": 0})
        row["done" if cell.id in finished else "failed" if cell.id in failed else "missing"] += 1
    planned = {cell.id for cell in cells}
    return StudyOverview(
        plan=plan.name,
        title=plan.title,
        size=plan.size,
        cells=len(cells),
        done=sum(row["done"] for row in counts.values()),
        failed=sum(row["failed"] for row in counts.values()),
        missing=sum(row["missing"] for row in counts.values()),
        unplanned=len(finished - planned),
        rows=[OverviewRow(data=d, model=m, defense=e, **row) for (d, m, e), row in counts.items()],
        failures=sorted(planned & failed),
    )
