"""Polar coordinates of a table: the logarithm of the length of each row, and its direction.

Users of low activity lie close together near the origin, so that a small move is a large one compared with the
distances there. In polar coordinates they are as far apart as other users. The coordinates need no label, and rows can
be told from them: classes that are alike in polar coordinates are alike in the table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

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

    def encode(self, x: FloatArray) -> FloatArray:
        """Return the log length, the direction, and the columns that do not vary; one column more than `x`."""
        wide = np.asarray(x, dtype=np.float64)
        values = wide[:, self.varies] / self.unit
        length = np.linalg.norm(values, axis=1, keepdims=True)
        direction = values / np.where(length > 0, length, 1.0)
        return np.hstack([np.log(np.maximum(length, self.shortest)), direction, wide[:, ~self.varies]])

    def decode(self, encoded: FloatArray) -> FloatArray:
        """Return the rows of these coordinates; directions get length 1 first."""
        wide, d = np.asarray(encoded, dtype=np.float64), int(self.varies.sum())
        direction = wide[:, 1 : 1 + d]
        length = np.linalg.norm(direction, axis=1, keepdims=True)
        rows = np.empty((len(wide), len(self.varies)))
        rows[:, self.varies] = direction / np.where(length > 0, length, 1.0) * np.exp(wide[:, :1]) * self.unit
        rows[:, ~self.varies] = wide[:, 1 + d :]
        return rows

    def has_shape(self, dimensions: int) -> bool:
        """Whether they are of vectors of so many dimensions, with lengths above 0."""
        return self.varies.shape == (dimensions,) and self.unit > 0 and self.shortest > 0
