"""A mergeable sketch of the rows of each cell: those whose keys, drawn from the row numbers, are smallest.

It is a random sample without replacement that does not depend on how the rows were dealt out, in which order they came,
or whether some were seen twice. It stands for the quantiles along every axis at once, so all rounds of `sliced` are
learned from one pass. With k rows of a class, no quantile level along a given axis is off by more than
sqrt(ln(2 / chance) / (2 k)) except with that chance (Dvoretzky, Kiefer and Wolfowitz 1956; Massart 1990).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recveil.core.types import FloatArray, IntArray
from recveil.streaming.id_hashes import Hashes, mix_bits

__all__ = ["Sketch", "compute_key_limits"]


@dataclass(frozen=True, eq=False)
class Sketch:
    """Some rows: their keys, their numbers in the table, their cells and their vectors."""

    keys: Hashes
    rows: IntArray
    cells: NDArray[np.int16]
    x: NDArray[np.float32]

    @classmethod
    def from_block(cls, x: FloatArray, cells: NDArray[np.int16], start: int, below: Hashes, seed: int) -> Sketch:
        """The rows of a block that starts at this row number whose keys do not exceed the limit of their cell."""
        rows = np.arange(start, start + len(cells))
        keys = mix_bits(rows, seed)
        kept = np.flatnonzero(keys <= below[cells])
        return cls(keys[kept], rows[kept], cells[kept], np.asarray(x[kept], dtype=np.float32))

    def merge(self, other: Sketch) -> Sketch:
        """The rows of both."""
        return Sketch(*(np.concatenate([getattr(s, name) for s in (self, other)]) for name in vars(self)))

    def keep_smallest(self, k: IntArray) -> Sketch:
        """Of each cell the `k[cell]` rows with the smallest keys, in the order of cells and keys, each once."""
        order = np.lexsort((self.keys, self.cells))
        order = order[np.unique(self.rows[order], return_index=True)[1]] if len(order) else order
        order = order[np.lexsort((self.keys[order], self.cells[order]))]
        cells = self.cells[order]
        n = np.bincount(cells, minlength=len(k))
        place = np.arange(len(order)) - (np.cumsum(n) - n)[cells]
        return self.take_rows(order[place < k[cells]])

    def take_rows(self, at: NDArray[np.intp]) -> Sketch:
        """These of the rows."""
        return Sketch(self.keys[at], self.rows[at], self.cells[at], self.x[at])


def compute_key_limits(counts: IntArray, k: IntArray) -> Hashes:
    """The keys under which a cell of so many rows surely (six standard deviations) has its k smallest."""
    share = np.minimum(1.0, (k + 6 * np.sqrt(k) + 10) / np.maximum(counts, 1))
    return np.where(share < 1, share * 2.0**63, 2.0**63 - 1024).astype(np.uint64) * np.uint64(2) + np.uint64(2047)
