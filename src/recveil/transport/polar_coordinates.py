"""Polar coordinates of a table: the logarithm of the length of each row, and its direction.

Users of low activity lie close together near the origin, so that a small move is a large one compared with the
distances there. In polar coordinates they are as far apart as other users. The coordinates need no label, and rows can
be told from them: classes that are alike in polar coordinates are alike in the table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from recveil.core.types import FloatArray
from recveil.transport.normal_scores import find_varying

__all__ = ["PolarCoordinates"]


@dataclass(frozen=True, eq=False)
class PolarCoordinates:
    """The way to polar coordinates and back.

    Attributes:
        varies: columns in which rows differ; the others are left as they are.
        unit: largest absolute value of the table, by which lengths are divided.
        shortest: length, in units, that rows of zeros count as.
    """

    varies: NDArray[np.bool_]
    unit: float
    shortest: float

    @classmethod
    def fit(cls, x: FloatArray) -> Self:
        """Find the columns that vary and the scale of a table."""
        varies = find_varying(x)
        values = np.asarray(x[:, varies], dtype=np.float64)
        unit = float(np.abs(values).max(initial=0.0)) or 1.0
        length = np.linalg.norm(values / unit, axis=1)
        return cls(varies, unit, float(length[length > 0].min(initial=1.0)))

    def encode(self, x: FloatArray, dtype: DTypeLike = np.float64) -> FloatArray:
        """Return the log length, the direction, and the columns that do not vary; one column more than `x`."""
        wide = np.asarray(x, dtype=dtype)
        d = int(self.varies.sum())
        out = np.empty((len(wide), wide.shape[1] + 1), dtype=dtype)
        direction = np.divide(wide if self.varies.all() else wide[:, self.varies], self.unit, out=out[:, 1 : 1 + d])
        length = np.sqrt(np.einsum("ij,ij->i", direction, direction))[:, None]
        direction /= np.where(length > 0, length, 1.0).astype(dtype, copy=False)
        out[:, :1] = np.log(np.maximum(length, self.shortest))
        out[:, 1 + d :] = wide[:, ~self.varies]
        return out

    def decode(self, encoded: FloatArray) -> FloatArray:
        """Return the rows of these coordinates, in their precision; directions get length 1 first."""
        d = int(self.varies.sum())
        direction = encoded[:, 1 : 1 + d]
        length = np.sqrt(np.einsum("ij,ij->i", direction, direction))[:, None]
        values = direction * (np.exp(encoded[:, :1]) * self.unit / np.where(length > 0, length, 1.0))
        if d == len(self.varies):
            return values
        rows = np.empty((len(encoded), len(self.varies)), dtype=encoded.dtype)
        rows[:, self.varies] = values
        rows[:, ~self.varies] = encoded[:, 1 + d :]
        return rows

    def has_shape(self, dimensions: int) -> bool:
        """Whether they are of vectors of so many dimensions, with lengths above 0."""
        return self.varies.shape == (dimensions,) and self.unit > 0 and self.shortest > 0
