"""Numbers that follow from the content of a row alone, so that the order of the rows decides nothing.

Sums of floating-point numbers depend on their order, so keys are computed from the bits, by integer arithmetic modulo
2^64 (the finalizer of SplitMix64, Steele, Lea and Flood 2014).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from recveil.core.types import FloatArray, IntArray

__all__ = ["MULTIPLIERS", "SHIFTS", "Keys", "compute_row_keys", "draw_uniforms", "extend_keys"]

Keys = NDArray[np.uint64]
SHIFTS = (30, 27, 31)
MULTIPLIERS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
_GOLDEN = 0x9E3779B97F4A7C15


def compute_row_keys(x: FloatArray) -> Keys:
    """Return one key for each row; equal rows have equal keys, other rows hardly ever."""
    keys = np.zeros(len(x), dtype=np.uint64)
    for column in np.asarray(x, dtype=np.float64).T:
        keys = _mix(keys ^ (column + 0.0).view(np.uint64))  # the sum turns -0.0 into 0.0
    return keys


def extend_keys(keys: Keys, codes: IntArray) -> Keys:
    """Return keys that follow from these keys and a row of codes each."""
    for column in codes.T:
        keys = _mix(keys ^ column.astype(np.uint64))
    return keys


def draw_uniforms(keys: Keys, stream: int) -> FloatArray:
    """Return a number between 0 and 1 for each key; another stream gives independent numbers."""
    mixed = _mix(keys + np.uint64((stream + 1) * _GOLDEN % 2**64))
    return np.asarray((mixed >> np.uint64(11)).astype(np.float64) * 2.0**-53)


def _mix(keys: Keys) -> Keys:
    for shift, multiplier in zip(SHIFTS, MULTIPLIERS, strict=False):
        keys = (keys ^ (keys >> np.uint64(shift))) * np.uint64(multiplier)
    return np.asarray(keys ^ (keys >> np.uint64(SHIFTS[-1])))
