"""Mergeable random sample of the rows of each cell: the rows with the smallest keys.

Keys are hashes of the row numbers, so the sample without replacement does not depend on how the rows were divided, in
which order they came, or whether some were read twice. The sample estimates quantiles along all axes at once, so maps
that need quantiles along many axes are learned from one pass. With k rows of a class, no quantile level along a given
axis is off by more than sqrt(ln(2 / p) / (2 k)) except with probability p (Dvoretzky, Kiefer and Wolfowitz 1956;
Massart 1990).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recveil.core.types import FloatArray, IntArray
from recveil.streaming.id_hashes import Hashes, mix_bits

__all__ = ["Sketch", "compute_key_limits"]


@dataclass(frozen=True, eq=False)
class Sketch:
    """Rows of a table.

    Attributes:
        keys: hashes of the row numbers.
        rows: row numbers.
        cells: cell of each row.
        x: vectors.
    """

    keys: Hashes
    rows: IntArray
    cells: NDArray[np.int16]
    x: NDArray[np.float32]

    @classmethod
    def from_block(cls, x: FloatArray, cells: NDArray[np.int16], start: int, key_limits: Hashes, seed: int) -> Sketch:
        """Sample the rows of a block whose keys do not exceed the limit of their cell.

        Args:
            x: vectors of the block.
            cells: cell of each row.
            start: number of the first row.
            key_limits: largest key of each cell.
            seed: seed of the keys.

        Returns:
            The sample.
        """
        rows = np.arange(start, start + len(cells))
        keys = mix_bits(rows, seed)
        chosen = np.flatnonzero(keys <= key_limits[cells])
        return cls(keys[chosen], rows[chosen], cells[chosen], np.asarray(x[chosen], dtype=np.float32))

    def merge(self, other: Sketch) -> Sketch:
        """Return the rows of both."""
        return Sketch.join([self, other])

    @classmethod
    def join(cls, sketches: Sequence[Sketch]) -> Sketch:
        """Return the rows of all, at least one."""
        parts = zip(*(vars(sketch).values() for sketch in sketches), strict=True)
        return cls(*map(np.concatenate, parts))

    def keep_smallest(self, quota: IntArray) -> Sketch:
        """Keep the `quota[cell]` rows with the smallest keys of each cell.

        Each row occurs once in the result, which is ordered by cell and key.
        """
        order = np.lexsort((self.keys, self.cells))
        # A row that came twice is kept once; then by cell and key again.
        order = order[np.unique(self.rows[order], return_index=True)[1]] if len(order) else order
        order = order[np.lexsort((self.keys[order], self.cells[order]))]
        cells = self.cells[order]
        n = np.bincount(cells, minlength=len(quota))
        rank = np.arange(len(order)) - (np.cumsum(n) - n)[cells]
        return self.take_rows(order[rank < quota[cells]])

    def take_rows(self, at: NDArray[np.intp]) -> Sketch:
        """Return the sketch of these of its rows."""
        return Sketch(self.keys[at], self.rows[at], self.cells[at], self.x[at])


def compute_key_limits(counts: IntArray, quota: IntArray) -> Hashes:
    """Compute for each cell a key below which its `quota` smallest keys lie.

    The number of keys below it exceeds the quota by six standard deviations.
    """
    share = np.minimum(1.0, (quota + 6 * np.sqrt(quota) + 10) / np.maximum(counts, 1))
    # Keys are uniform on [0, 2^64). Floats hold 53 bits, so the share is scaled to 2^63 and doubled, low bits set.
    return np.where(share < 1, share * 2.0**63, 2.0**63 - 1024).astype(np.uint64) * np.uint64(2) + np.uint64(2047)
