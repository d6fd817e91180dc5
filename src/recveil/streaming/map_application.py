"""The map of each cell applied to rows, and the distance by which it displaces the users."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray

from recveil.defenses.embeddings.cell_maps import CellMap, CellStatistics

__all__ = ["RowMap", "apply_cell_map", "measure_displacement"]

BLOCK_ROWS = 1 << 12
"""Rows carried at once: few enough to stay in the processor's cache."""


class RowMap(Protocol):
    """A map of the rows of each cell."""

    def carry_rows(self, x: torch.Tensor, cell: int) -> torch.Tensor:
        """Carry rows of one cell; `x` may be overwritten."""


def apply_cell_map(cell_map: RowMap, x: NDArray[np.float32], cells: NDArray[np.int16]) -> NDArray[np.float32]:
    """Carry each row by the map of its cell.

    Rows are grouped by cell, so that a few thousand rows of one cell are one matrix product.
    """
    # From Arrow's pool, which hands the same memory out again: fresh pages cost as much as the products.
    out = np.frombuffer(pa.allocate_buffer(max(x.nbytes, 4)), np.float32)[: x.size].reshape(x.shape)
    order = np.argsort(cells, kind="stable")
    present, first = np.unique(cells[order], return_index=True)
    for cell, start, end in zip(present.tolist(), first, [*first[1:], len(order)], strict=False):
        for begin in range(start, end, BLOCK_ROWS):
            rows = order[begin : min(begin + BLOCK_ROWS, end)]
            out[rows] = cell_map.carry_rows(torch.from_numpy(np.take(x, rows, axis=0)), cell).numpy()
    return out


def measure_displacement(cell_map: CellMap, statistics: CellStatistics) -> float:
    """Measure how far users are moved, as a share of their distance from the mean.

    Both are root mean squares.

    For an affine map it follows from the moments: with D = A - I and the shift s of the mean of a cell, the squared
    moves of its users sum to tr(D' S D) + n |s|^2, where S is the scatter. For rounds and scores the sample tells.
    """
    moments, first = statistics.moments, cell_map.first
    step = first.A - torch.eye(moments.mean.shape[1], dtype=torch.float64)
    shift = moments.apply_affine(first.center, first.A, first.m).mean - moments.mean
    squares = torch.einsum("cij,cjk,cki->c", step.mT, moments.scatter, step) + moments.n * (shift**2).sum(1)
    if cell_map.rounds is not None or cell_map.scores is not None:
        sample, cells = statistics.sample, statistics.sample_cells
        gap = apply_cell_map(cell_map.to_float32(), sample, cells) - sample
        squared = np.einsum("ni,ni->n", gap, gap, dtype=np.float64)
        n = np.bincount(cells, minlength=len(squares))
        mean = np.bincount(cells, squared, len(squares)) / np.maximum(n, 1)
        squares = torch.where(torch.from_numpy(n > 0), torch.from_numpy(mean) * moments.n, squares)
    spread = float(moments.pool_classes().scatter[0].diagonal().sum())
    return (float(squares.sum()) / spread) ** 0.5 if spread > 0 else 0.0
