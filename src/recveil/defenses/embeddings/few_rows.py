"""Fitted maps for one or a few users, in NumPy: a service carries one vector at a time.

On so few rows torch spends its time on calls and on converting the tables of all rounds; here the tables are converted
once, when the map is first used. The results are those of `fitted_maps` up to rounding.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np
import torch
from numpy.typing import NDArray

from recveil.core.types import FloatArray, IntArray
from recveil.transport.quantile_alignment import KNOT_REACH, KNOTS

__all__ = ["FEW_ROWS", "AffineRows", "RowCarrier", "SlicedRows", "scale_rows"]

FEW_ROWS = 16
"""Rows up to which NumPy is faster than torch."""

PAD_KNOTS = 2
"""Knots beyond each end, where the shift is constant: places need not be cut to the knots."""

_PLACES_PER_UNIT = np.float32((KNOTS - 1) / (2 * KNOT_REACH))
_MIDDLE_PLACE = np.float32((KNOTS - 1) / 2 + PAD_KNOTS)


class RowCarrier(Protocol):
    """One stage of a map, for few rows."""

    def carry_rows(self, x: FloatArray, cells: IntArray) -> FloatArray:
        """Carry rows in float64 by the cells of their users."""


@dataclass(frozen=True, eq=False)
class AffineRows:
    """An `AffineMap` as arrays."""

    center: FloatArray
    A: FloatArray
    m: FloatArray

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, torch.Tensor]) -> Self:
        """Convert the tensors of an `AffineMap`."""
        return cls(*(tensors[name].detach().cpu().double().numpy() for name in ("center", "A", "m")))

    def carry_rows(self, x: FloatArray, cells: IntArray) -> FloatArray:
        """Carry rows by the map of their cell; cell -1 is the last entry."""
        out = np.empty_like(x)
        for k in set(cells.tolist()):
            rows = cells == k
            out[rows] = (x[rows] - self.center[k]) @ self.A[k] + self.m
        return out


Round = tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.complex64]]
"""Axes, the way back from them, and the lines of the shifts (see `SlicedRows`)."""


@dataclass(frozen=True, eq=False)
class SlicedRows:
    """A `SlicedMap` as arrays in float32.

    Attributes:
        m: (d,) center.
        rounds: for each cell the rounds that move its rows. Lines have d * knots entries, one from each knot to the
            next: the shift at place 0 as the real part, its slope as the imaginary part, so that one call fetches both.
        first: (d,) number of the first knot of each axis.
    """

    m: NDArray[np.float32]
    rounds: tuple[tuple[Round, ...], ...]
    first: NDArray[np.intp]

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, torch.Tensor]) -> Self:
        """Convert the tensors of a `SlicedMap`."""
        m, to, back, shifts = (tensors[name].detach().cpu().float().numpy() for name in ("m", "to", "back", "shifts"))
        first = np.arange(len(m), dtype=np.intp) * (KNOTS + 2 * PAD_KNOTS)
        if not len(to):
            return cls(m, (), first)
        to, back = (np.ascontiguousarray(axes) for axes in (to, back))
        lines = _build_lines(shifts)
        is_active = shifts.any(axis=(2, 3))
        cells = range(shifts.shape[1])
        rounds = [[(to[r], back[r], lines[r, k]) for r in np.flatnonzero(is_active[:, k])] for k in cells]
        return cls(m, tuple(map(tuple, rounds)), first)

    def carry_rows(self, x: FloatArray, cells: IntArray) -> FloatArray:
        """Carry rows by the rounds of their cell; cell -1 stays where it is."""
        out = x.copy()
        for k in set(cells.tolist()) - {-1} if self.rounds else ():
            rows = cells == k
            table = x[rows].astype(np.float32)
            out[rows] = self._carry_cell(table[0] if len(table) == 1 else table, k)  # ufuncs are faster on one axis
        return out

    def _carry_cell(self, x: NDArray[np.float32], k: int) -> NDArray[np.float32]:
        """Carry rows of one cell by all rounds; each is `interpolate_shifts`, in as few calls as possible."""
        y = x - self.m
        one = np.ones_like(y)  # arrays, since a ufunc takes longer to convert a number than to add an array
        units, middle = one * _PLACES_PER_UNIT, one * _MIDDLE_PLACE
        for to, back, lines in self.rounds[k]:
            z = y.dot(to)
            place = np.abs(z)
            place += one
            np.divide(z, place, out=place)
            place *= units  # knots are one apart, and place 0 is in their middle
            knot = np.add(place, middle).astype(np.intp)
            knot += self.first
            line = lines.take(knot)
            place *= line.imag
            place += line.real
            y += place.dot(back)
        return y + self.m


def _build_lines(shifts: NDArray[np.float32]) -> NDArray[np.complex64]:
    """Return the lines between the knots of (R, K, d, knots) shifts, flat in the last axis; they are level outside."""
    padded = np.pad(shifts.astype(np.float64), [(0, 0)] * 3 + [(PAD_KNOTS, PAD_KNOTS)], mode="edge")
    slopes = np.diff(padded, axis=-1, append=padded[..., -1:])
    lines = padded - slopes * (np.arange(padded.shape[-1]) - float(_MIDDLE_PLACE)) + 1j * slopes
    return lines.reshape(*shifts.shape[:2], -1).astype(np.complex64)


def scale_rows(x: FloatArray, norm: float) -> FloatArray:
    """Scale all rows to this length; 0 leaves them alone."""
    return x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-300) * norm if norm else x
