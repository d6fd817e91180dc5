"""One cell: from a combination of the grid to records. The same cell gives the same bytes, wherever it is run."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from threadpoolctl import threadpool_limits

from recveil.core.types import Record
from recveil.studies import attribute_cells as attribute
from recveil.studies import membership_cells as members
from recveil.studies import trials as trial
from recveil.studies.plans import Cell

__all__ = ["Result", "run_cell"]

KINDS = {
    "attribute": attribute.measure_attribute_cell,
    "membership": members.measure_membership_cell,
    "trial": trial.measure_trial_cell,
}
SIGNIFICANT_DIGITS = 10
"""Significant digits that are kept: beyond them lies rounding error."""


@dataclass(frozen=True, eq=False)
class Result:
    """What a cell came to: `content` is what is kept of it, `seconds` how long each step took."""

    content: Mapping[str, Any]
    seconds: Mapping[str, float] = field(default_factory=dict)


def run_cell(cell: Cell, cache: Path | None = None) -> Result:
    """Measure the cell; trained models are looked up and kept in the folder `cache`.

    On one thread: sums of floating-point numbers depend on how many threads share them.
    """
    if cache is None:
        with tempfile.TemporaryDirectory() as folder:
            return run_cell(cell, Path(folder))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1):
            records, details, seconds = KINDS[cell.kind](cell, cache)
    finally:
        torch.set_num_threads(threads)
    content = {"cell": cell.to_dict(), "records": [_plain(cell, record) for record in records], "details": details}
    return Result(round_numbers(content), seconds)


def _plain(cell: Cell, record: Record) -> dict[str, Any]:
    return replace(record, cell=cell.id).to_dict()


def round_numbers(value: Any) -> Any:
    """The same plain values with floats to ten digits; what is not a number becomes null."""
    if isinstance(value, Mapping):
        return {str(key): round_numbers(inside) for key, inside in value.items()}
    if isinstance(value, list | tuple):
        return [round_numbers(inside) for inside in value]
    if isinstance(value, float):
        return float(f"{value:.{SIGNIFICANT_DIGITS}g}") if math.isfinite(value) else None
    return value
