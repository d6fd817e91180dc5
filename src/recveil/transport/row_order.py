"""An order of the rows of a table that is the same however they were ordered before."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from recveil.core.types import FloatArray, IntArray
from recveil.transport.row_keys import MULTIPLIERS, SHIFTS, compute_row_keys

__all__ = ["sort_rows"]


def sort_rows(x: FloatArray, codes: IntArray, device: str | torch.device = "cpu") -> NDArray[np.intp]:
    """Return an order of the rows that follows from their content, but for equal users.

    Args:
        x: rows.
        codes: class of each row, or a row of classes.
        device: where keys are computed and sorted; the order is the same on all.
    """
    columns = codes[None] if codes.ndim == 1 else codes.T
    if torch.device(device).type == "cpu":
        return np.lexsort((*columns, compute_row_keys(x)))
    return np.asarray(_sort_on_device(torch.tensor(x, device=device), columns).cpu().numpy())


def _sort_on_device(x: torch.Tensor, columns: IntArray) -> torch.Tensor:
    order = torch.arange(len(x), device=x.device)
    for column in columns:  # the last sort decides first
        order = order[torch.as_tensor(column, device=x.device)[order].argsort(stable=True)]
    keys = _compute_keys(x) ^ torch.iinfo(torch.int64).min  # signed numbers in the order of the unsigned ones
    return order[keys[order].argsort(stable=True)]


def _compute_keys(x: torch.Tensor) -> torch.Tensor:
    """Compute `compute_row_keys`; torch has no unsigned arithmetic, but the bits of products are the same."""
    keys = torch.zeros(len(x), dtype=torch.int64, device=x.device)
    for column in x.mT:
        keys = _mix(keys ^ (column.double() + 0.0).view(torch.int64))
    return keys


def _mix(keys: torch.Tensor) -> torch.Tensor:
    for shift, multiplier in zip(SHIFTS, (*MULTIPLIERS, 1), strict=True):
        shifted = (keys >> shift) & ((1 << (64 - shift)) - 1)  # without the sign that a signed shift repeats
        keys = (keys ^ shifted) * (multiplier - (1 << 64) if multiplier >> 63 else multiplier)
    return keys
