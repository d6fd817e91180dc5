"""Several attributes as classes: joint cells where they are large enough, else one attribute after the other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from recveil.core import UNKNOWN, FloatArray, IntArray
from recveil.errors import DataError, UsageError

__all__ = ["Cells", "check_table", "cells_of"]

CYCLES = 3
"""How often to go round the attributes when joint cells are too small: each undoes a little of the others."""


@dataclass(frozen=True, eq=False)
class Cells:
    """One way to cut the users into classes; -1 = nothing known."""

    codes: IntArray
    n_classes: int


def cells_of(codes: IntArray, minimum: int) -> list[Cells]:
    """The passes to make over the classes of an (n, n_attributes) array of codes.

    One pass over the joint cells if each has `minimum` users or more; otherwise several rounds over the attributes.
    """
    codes = codes[:, None] if codes.ndim == 1 else codes
    joint = _compact(_joint(codes))
    if codes.shape[1] == 1:
        return [joint]
    if np.bincount(joint.codes[joint.codes >= 0], minlength=1).min() >= minimum:
        return [joint]
    return [_compact(column) for column in codes.T] * CYCLES


def check_table(x: FloatArray, codes: IntArray, strength: float) -> None:
    """Refuse what no embedding defense can work on."""
    if x.ndim != 2 or not len(x):
        raise DataError(f"User vectors must be a table of at least one row; got shape {x.shape}.")
    if len(codes) != len(x):
        raise DataError(f"There are {len(x):,} user vectors but codes for {len(codes):,} users. Give one row each.")
    if not np.isfinite(x).all():
        raise DataError("The user vectors hold NaN or infinite values. Remove or repair those rows first.")
    if not 0 <= strength <= 1:
        raise UsageError(f"strength must lie between 0 (nothing) and 1 (all of it); got {strength:g}.")


def _joint(codes: IntArray) -> IntArray:
    """One code for each combination; who disclosed one attribute but not another is a combination too.

    Left out of all cells, such a user would keep the attribute that is known.
    """
    known = (codes != UNKNOWN).any(1)
    out = np.full(len(codes), UNKNOWN, dtype=np.int64)
    if known.any():
        out[known] = np.unique(codes[known], axis=0, return_inverse=True)[1].reshape(-1)
    return out


def _compact(codes: IntArray) -> Cells:
    """The same classes numbered 0..K-1, those without users left out."""
    out = np.full(len(codes), UNKNOWN, dtype=np.int64)
    present, inverse = np.unique(codes[codes != UNKNOWN], return_inverse=True)
    out[codes != UNKNOWN] = inverse
    return Cells(out, len(present))
