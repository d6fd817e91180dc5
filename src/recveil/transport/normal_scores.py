"""Normal scores: each column on the scale of its own ranks, so that it has a normal distribution.

Many users at one value (the zeros of a rectifier, a saturated unit) would show every move that depends on the class. On
the scale of ranks they fill an interval, and the way back puts whatever stays in that interval at that
value again. Heavy tails and narrow peaks become smooth as well. The scale needs no label, so classes that are alike on
it are alike in the table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from recveil.core.types import FloatArray
from recveil.transport.row_keys import Keys, draw_uniforms
from recveil.transport.tied_scores import Ties

__all__ = ["NormalScores", "find_varying"]

MAX_KNOTS = 2_049
"""Ranks at which the values of a column are kept; between two of them values are interpolated."""

MIN_SPAN = 1e-9
"""Smallest span of a column, as a share of its largest value; ranks of anything less (float32 tells 6e-8) would be
ranks of rounding errors, such as those of the lengths of vectors that all have length 1."""


def find_varying(x: FloatArray) -> NDArray[np.bool_]:
    """Find the columns in which rows differ by more than rounding."""
    return np.asarray(np.ptp(x, axis=0) > MIN_SPAN * np.abs(x).max(0))


@dataclass(frozen=True, eq=False)
class NormalScores:
    """The way to normal scores and back.

    Attributes:
        levels: (q,) shares of the rows below each knot.
        knots: (q, d) values of each column at these levels.
    """

    levels: FloatArray
    knots: FloatArray

    @classmethod
    def fit(cls, x: FloatArray) -> Self:
        """Keep the values of each column at up to `MAX_KNOTS` even ranks."""
        ranks = np.unique(np.linspace(0, len(x) - 1, min(len(x), MAX_KNOTS)).round().astype(np.int64))
        return cls((ranks + 0.5) / len(x), np.sort(np.asarray(x, dtype=np.float64), axis=0)[ranks])

    @property
    def varies(self) -> NDArray[np.bool_]:
        """Columns in which rows differ by more than rounding; the others are left as they are."""
        return find_varying(self.knots)

    def encode(self, x: FloatArray, keys: Keys) -> FloatArray:
        """Return the scores; rows with the value of several knots get one of their levels by their key."""
        scores = np.array(x, dtype=np.float64)
        for j in np.flatnonzero(self.varies):
            levels = np.interp(scores[:, j], self.knots[:, j], self.levels)
            tied, low, high = self._find_tied_levels(scores[:, j], int(j))
            levels[tied] = low + draw_uniforms(keys[tied], int(j)) * (high - low)
            scores[:, j] = ndtri(levels)
        return scores

    def find_ties(self, x: FloatArray) -> list[Ties]:
        """Find the rows with the value of several knots, and the scores that they may have."""
        wide = np.asarray(x, dtype=np.float64)
        found = [(int(j), *self._find_tied_levels(wide[:, j], int(j))) for j in np.flatnonzero(self.varies)]
        return [Ties(j, rows, ndtri(low), ndtri(high)) for j, rows, low, high in found if len(rows)]

    def _find_tied_levels(self, values: FloatArray, j: int) -> tuple[NDArray[np.intp], FloatArray, FloatArray]:
        """Return the rows with the value of several knots of a column, and the first and last of their levels."""
        knots = self.knots[:, j]
        first, last = np.searchsorted(knots, values), np.searchsorted(knots, values, "right") - 1
        rows = np.flatnonzero(last > first)
        return rows, self.levels[first[rows]], self.levels[last[rows]]

    def decode(self, scores: FloatArray) -> FloatArray:
        """Return the values of these scores; no value lies beyond those that were met."""
        x = np.array(scores, dtype=np.float64)
        for j in np.flatnonzero(self.varies):
            x[:, j] = np.interp(ndtr(x[:, j]), self.levels, self.knots[:, j])
        return x
