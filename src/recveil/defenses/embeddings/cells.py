"""Several attributes as classes: joint cells if they are large enough, else one attribute after the other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from recveil.core.errors import DataError, UsageError
from recveil.core.types import UNDISCLOSED, FloatArray, IntArray

__all__ = ["Cells", "check_table", "find_cells", "plan_cells", "split_attributes"]

ATTRIBUTE_CYCLES = 3
"""Cycles over the attributes when joint cells are too small: each attribute undoes a little of the others."""

ANY_CODE = -2
"""Code in the key of a cell that matches every class of the attribute."""


@dataclass(frozen=True, eq=False)
class Cells:
    """One partition of the users into classes.

    Attributes:
        codes: class of each user; -1 for users without any disclosed attribute.
        keys: `keys[k]` are the codes of the attributes that make class k, by which `find_cells` places later users.
    """

    codes: IntArray
    keys: IntArray

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.keys)


def plan_cells(codes: IntArray, minimum: int) -> list[Cells]:
    """Plan the partitions that a defense equalizes in turn.

    Args:
        codes: (n,) or (n, n_attributes) classes of the users.
        minimum: fewest users of a joint cell.

    Returns:
        The joint cells if each has enough users; otherwise several cycles over the single attributes.
    """
    codes = codes[:, None] if codes.ndim == 1 else codes
    joint = _build_cells(codes)
    if codes.shape[1] == 1:
        return [joint]
    if np.bincount(joint.codes[joint.codes >= 0], minlength=1).min() >= minimum:
        return [joint]
    return split_attributes(codes) * ATTRIBUTE_CYCLES


def split_attributes(codes: IntArray) -> list[Cells]:
    """Return the partition by each single attribute of (n, n_attributes) codes."""
    return [_build_cells(np.where(np.eye(codes.shape[1])[j] > 0, codes, ANY_CODE)) for j in range(codes.shape[1])]


def find_cells(codes: IntArray, keys: IntArray) -> IntArray:
    """Find the cell of each row of codes by the keys of a fit; -1 for combinations that the fit did not meet."""
    codes = codes[:, None] if codes.ndim == 1 else codes
    if codes.shape[1] != keys.shape[1]:
        raise DataError(f"The map was fitted with {keys.shape[1]} attributes; codes for {codes.shape[1]} were given.")
    out = np.full(len(codes), UNDISCLOSED, dtype=np.int64)
    for k, key in enumerate(keys):
        out[((codes == key) | (key == ANY_CODE)).all(1)] = k
    return out


def check_table(x: FloatArray, codes: IntArray, strength: float) -> None:
    """Refuse tables, codes and strengths that no embedding defense can use."""
    if x.ndim != 2 or not len(x):
        raise DataError(f"User vectors must be a table of at least one row; got shape {x.shape}.")
    if len(codes) != len(x):
        raise DataError(f"There are {len(x):,} user vectors but codes for {len(codes):,} users. Give one row each.")
    if not np.isfinite(x).all():
        raise DataError("The user vectors hold NaN or infinite values. Remove or repair those rows first.")
    if not 0 <= strength <= 1:
        raise UsageError(f"strength must lie between 0 (nothing) and 1 (all of it); got {strength:g}.")


def _build_cells(codes: IntArray) -> Cells:
    """Build one class for each combination of codes, undisclosed ones included.

    A user who discloses one attribute but not another needs a cell too, else the disclosed one would stay visible.
    """
    known = (codes >= 0).any(1)
    out = np.full(len(codes), UNDISCLOSED, dtype=np.int64)
    if codes.shape[1] == 1:  # counting is many times faster than sorting rows
        present = np.bincount(codes[known, 0]) > 0
        out[known] = (present.cumsum() - 1)[codes[known, 0]]
        return Cells(out, np.flatnonzero(present)[:, None])
    keys, inverse = np.unique(codes[known], axis=0, return_inverse=True)
    out[known] = inverse.reshape(-1)
    return Cells(out, keys.astype(np.int64))
