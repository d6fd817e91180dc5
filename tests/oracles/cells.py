"""Cells of a table that fits into memory: exact statistics, a sample of all rows, and maps applied cell by cell."""

from __future__ import annotations

import numpy as np
import torch

from recveil.core.random import make_generator
from recveil.core.types import IntArray
from recveil.defenses.embeddings.cell_maps import CellMap, CellStatistics, StreamingDefense
from recveil.transport.moments import Moments


def make_table(
    n: int = 4000, d: int = 4, attributes: int = 1, unknown: float = 0.1, seed: int = 0
) -> tuple[np.ndarray, IntArray]:
    """Make vectors whose mean and spread depend on attributes of three classes; `unknown` is the share of codes -1."""
    rng = np.random.default_rng(seed)
    codes = np.where(rng.random((n, attributes)) < unknown, -1, rng.integers(0, 3, (n, attributes)))
    x = rng.standard_normal((n, d)) * (1 + 0.5 * (codes[:, :1] == 1)) + 2
    for j in range(attributes):
        x[:, j] += codes[:, j]
    x[:, -1] += 0.5 * x[:, 0]
    return x.astype(np.float32), codes


def gather_statistics(x: np.ndarray, codes: IntArray) -> tuple[CellStatistics, np.ndarray]:
    """Compute the statistics of all cells of the grid of classes, and the cell of each row."""
    shape = tuple(codes.max(0) + 2)
    cells = np.ravel_multi_index(tuple((codes + 1).T), shape).astype(np.int16)
    grid = np.stack(np.unravel_index(np.arange(np.prod(shape)), shape), axis=1) - 1
    moments = Moments.from_rows(torch.from_numpy(x), torch.from_numpy(cells), len(grid))
    order = np.argsort(cells, kind="stable")
    return CellStatistics(moments, grid, x[order], cells[order]), cells


def apply_by_cell(cell_map: CellMap, x: np.ndarray, cells: np.ndarray) -> np.ndarray:
    """Carry the rows of one cell after the other, in single precision."""
    out, fitted = np.empty_like(x), cell_map.to_float32()
    for cell in np.unique(cells).tolist():
        rows = cells == cell
        out[rows] = fitted.carry_rows(torch.from_numpy(x[rows]), cell).numpy()
    return out


def cloak_by_cells(method: StreamingDefense, x: np.ndarray, codes: IntArray) -> np.ndarray:
    """Fit a defense from the statistics of the cells, and apply it to the same rows."""
    statistics, cells = gather_statistics(x, codes)
    return apply_by_cell(method.fit_cells(statistics, make_generator(0, "cloak"))[0], x, cells)


def compute_displacement(before: np.ndarray, after: np.ndarray) -> float:
    """Compute the root mean square move of the rows over their root mean square distance from the mean."""
    moved, spread = after - before.astype(np.float64), before - before.mean(0, dtype=np.float64)
    return float(np.sqrt((moved**2).sum() / (spread**2).sum()))
