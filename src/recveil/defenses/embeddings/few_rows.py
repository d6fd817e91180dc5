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

MAX_ROUNDING = 1e-6
"""Difference from the identity up to which axes lose nothing."""

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


@dataclass(frozen=True, eq=False)
class SlicedRows:
    """A `SlicedMap` as arrays in float32, for axes that lose nothing: the way to them and back is the identity.

    Attributes:
        m: (d,) center.
        to: axes of the first round.
        rounds: for each round that moves a cell its lines and the way to the axes of the next one, or at last back. The
            lines of a cell have d * knots entries, one from each knot to the next: the shift at place 0 as the real
            part, its slope as the imaginary part, so that one call fetches both.
        first: (d,) number of the first knot of each axis.
    """

    m: NDArray[np.float32]
    to: NDArray[np.float32]
    rounds: tuple[tuple[NDArray[np.complex64], NDArray[np.float32]], ...]
    first: NDArray[np.intp]

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, torch.Tensor]) -> Self | None:
        """Convert the tensors of a `SlicedMap`; None if its axes lose something."""
        m, to, back, shifts = (tensors[name].detach().cpu().double().numpy() for name in ("m", "to", "back", "shifts"))
        first = np.arange(len(m), dtype=np.intp) * (KNOTS + 2 * PAD_KNOTS)
        active = np.flatnonzero(shifts.reshape(len(to), -1).any(axis=1) if len(to) else [])
        if not len(active):
            return cls(m.astype(np.float32), np.empty((0, 0), np.float32), (), first)
        to, back, shifts = to[active], back[active], shifts[active]
        if not np.allclose(to @ back, np.eye(len(m)), atol=MAX_ROUNDING):
            return None
        ahead = np.concatenate([back[:-1] @ to[1:], back[-1:]]).astype(np.float32)
        lines = _build_lines(shifts)
        return cls(m.astype(np.float32), to[0].astype(np.float32), tuple(zip(lines, ahead, strict=True)), first)

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
        z: NDArray[np.float32] = (x - self.m).dot(self.to)
        one = np.ones_like(z)  # arrays, since a ufunc takes longer to convert a number than to add an array
        units, middle = one * _PLACES_PER_UNIT, one * _MIDDLE_PLACE
        for lines, ahead in self.rounds:
            place = np.abs(z)
            place += one
            np.divide(z, place, out=place)
            place *= units  # knots are one apart, and place 0 is in their middle
            knot = np.add(place, middle).astype(np.intp)
            knot += self.first
            line = lines[k].take(knot)
            place *= line.imag
            place += line.real
            z += place
            z = z.dot(ahead)
        return z + self.m


def _build_lines(shifts: FloatArray) -> NDArray[np.complex64]:
    """Return the lines between the knots of (R, K, d, knots) shifts, flat in the last axis; they are level outside."""
    padded = np.pad(shifts, [(0, 0)] * 3 + [(PAD_KNOTS, PAD_KNOTS)], mode="edge")
    slopes = np.diff(padded, axis=-1, append=padded[..., -1:])
    lines = padded - slopes * (np.arange(padded.shape[-1]) - float(_MIDDLE_PLACE)) + 1j * slopes
    return lines.reshape(*shifts.shape[:2], -1).astype(np.complex64)


def scale_rows(x: FloatArray, norm: float) -> FloatArray:
    """Scale all rows to this length; 0 leaves them alone."""
    return x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-300) * norm if norm else x
