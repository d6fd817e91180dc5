"""Label-free coordinates of a table in which moves that depend on the class do not stand out.

A map that moves classes differently separates users who lie close together, wherever the move is larger than the
distances there. In coordinates in which the table is smooth there are no such places. Which coordinates these are
depends on the table: its columns as they are, the ranks of each column (atoms and saturated units, as networks make
them), or length and direction, by ranks (very uneven activity).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from recveil.core.types import FloatArray
from recveil.transport.normal_scores import NormalScores
from recveil.transport.polar_coordinates import PolarCoordinates
from recveil.transport.row_keys import Keys, compute_row_keys
from recveil.transport.tied_scores import draw_tied_scores

__all__ = ["COLUMNS", "COORDINATES", "Coordinates"]

COLUMNS = "columns"
"""The columns as they are."""

COORDINATES = (COLUMNS, "polar", "scores")
"""Kinds of coordinates, in the order in which they are tried."""


@dataclass(frozen=True, eq=False)
class Coordinates:
    """The way to the coordinates of one kind and back; without parts the columns as they are.

    Attributes:
        polar: length and direction, if they come first.
        scores: ranks of the columns of these.
    """

    polar: PolarCoordinates | None = None
    scores: NormalScores | None = None

    @classmethod
    def fit(cls, kind: str, x: FloatArray) -> Self:
        """Find the coordinates of one kind in a table."""
        if kind == COLUMNS:
            return cls()
        polar = PolarCoordinates.fit(x) if kind == "polar" else None
        return cls(polar, NormalScores.fit(x if polar is None else polar.encode(x)))

    @property
    def kind(self) -> str:
        """Name of the kind."""
        return COLUMNS if self.scores is None else ("scores" if self.polar is None else "polar")

    def count_columns(self, dimensions: int) -> int:
        """Return how many coordinates vectors of so many dimensions have."""
        return dimensions + (self.polar is not None)

    def encode(self, x: FloatArray, keys: Keys | None = None) -> FloatArray:
        """Return the coordinates; `keys` break ties, and are those of the rows if none are given."""
        wide: FloatArray = np.asarray(x, dtype=np.float64)
        if self.scores is None:
            return wide
        keys = compute_row_keys(wide) if keys is None else keys
        return self.scores.encode(wide if self.polar is None else self.polar.encode(wide), keys)

    def encode_jointly(self, x: FloatArray, keys: Keys, rng: np.random.Generator) -> FloatArray:
        """Return the coordinates of a whole table; tied values get scores that suit the rest of their row."""
        scores = self.encode(x, keys)
        if self.scores is None:
            return scores
        wide = np.asarray(x, dtype=np.float64)
        ties = self.scores.find_ties(wide if self.polar is None else self.polar.encode(wide))
        return draw_tied_scores(scores, ties, rng)

    def decode(self, z: FloatArray) -> FloatArray:
        """Return the rows that have these coordinates."""
        values = np.asarray(z, dtype=np.float64) if self.scores is None else self.scores.decode(z)
        return values if self.polar is None else self.polar.decode(values)

    def to_arrays(self) -> dict[str, FloatArray]:
        """Return the arrays that make them up, by name."""
        arrays: dict[str, FloatArray] = {}
        if self.scores is not None:
            arrays |= {"levels": self.scores.levels, "knots": self.scores.knots}
        if self.polar is not None:
            scale = np.array([self.polar.unit, self.polar.shortest])
            arrays |= {"varies": self.polar.varies.astype(np.float64), "scale": scale}
        return arrays

    @classmethod
    def from_arrays(cls, arrays: dict[str, FloatArray]) -> Self:
        """Build the coordinates from `to_arrays`.

        Raises:
            KeyError: an array is missing.
        """
        if not arrays:
            return cls()
        scores = NormalScores(arrays["levels"], arrays["knots"])
        if "varies" not in arrays:
            return cls(None, scores)
        unit, shortest = arrays["scale"].tolist()
        return cls(PolarCoordinates(arrays["varies"] > 0, unit, shortest), scores)

    def has_shape(self, dimensions: int) -> bool:
        """Whether they are of vectors of so many dimensions, with levels and knots in ascending order."""
        if self.scores is None:
            return True
        levels, knots = self.scores.levels, self.scores.knots
        if levels.ndim != 1 or not len(levels) or knots.shape != (len(levels), self.count_columns(dimensions)):
            return False
        is_sorted = bool((np.diff(levels) > 0).all() and (np.diff(knots, axis=0) >= 0).all())
        in_range = bool(levels[0] > 0 and levels[-1] < 1)
        return is_sorted and in_range and (self.polar is None or self.polar.has_shape(dimensions))
