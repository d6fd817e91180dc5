"""The measurement of one cell: from a combination of the grid to records."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from recveil.core.device import use_one_thread
from recveil.core.files import make_temporary_folder
from recveil.studies.attribute_cells import measure_attribute_cell
from recveil.studies.cell_results import CellResult, Measurement
from recveil.studies.cells import Cell
from recveil.studies.membership_cells import measure_membership_cell
from recveil.studies.trials import measure_trial_cell

__all__ = ["run_cell"]

MEASURES: Mapping[str, Callable[[Cell, Path], Measurement]] = {
    "attribute": measure_attribute_cell,
    "membership": measure_membership_cell,
    "trial": measure_trial_cell,
}


def run_cell(cell: Cell, cache: Path | None = None) -> tuple[CellResult, Mapping[str, float]]:
    """Measure a cell on one thread; return its result and the seconds of each step.

    Sums of floating-point numbers depend on the number of threads, and the same cell must give the same bytes.

    Args:
        cell: the cell.
        cache: folder of trained models; a temporary one if not given.
    """
    if cache is None:
        with make_temporary_folder() as folder:
            return run_cell(cell, folder)
    with use_one_thread():
        measurement = MEASURES[cell.kind](cell, cache)
    return CellResult(cell, measurement.records, measurement.details), measurement.seconds
