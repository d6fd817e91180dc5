"""Ids as 64-bit hashes: to draw users, to look them up, and to find repeated ids in little memory.

Whole numbers are hashed as themselves, so ids in order stay in order. Two of n distinct texts collide with a
probability of n^2 / 2^65 (3 in 10,000 for a hundred million); code that finds equal hashes therefore compares the
texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from recveil.data.io.ids import Ids, normalize_ids

__all__ = ["Hashes", "find_bounds", "find_repeated_hashes", "hash_ids", "mix_bits"]

Hashes = NDArray[np.uint64]

SLICE_HASHES = 1 << 22
"""Hashes that are compared at once."""

SAMPLES_PER_SLICE = 1 << 10
"""Hashes looked at for each slice to find where it ends."""


def mix_bits(numbers: NDArray[np.uint64] | NDArray[np.int64], seed: int = 0) -> Hashes:
    """Map numbers one to one to numbers that look random.

    This is the finalizer of splitmix64 (Steele, Lea and Flood 2014).
    """
    x = numbers.astype(np.uint64)
    x += np.uint64((0x9E3779B97F4A7C15 * (seed + 1)) % 2**64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x ^= x >> np.uint64(shift)
        x *= np.uint64(factor)
    x ^= x >> np.uint64(31)
    return x


def hash_ids(ids: Ids, where: str | Path, *, text: bool = False) -> Hashes:
    """Hash each id.

    Args:
        ids: the ids.
        where: file that they come from, for errors.
        text: hash numbers as the text they would be written as.

    Returns:
        The hashes.
    """
    array = normalize_ids(ids, where)
    if pa.types.is_integer(array.type) and not text:
        return np.asarray(array.to_numpy()).view(np.uint64)
    return _hash_texts(array.cast(pa.large_string()))


def _hash_texts(array: pa.Array) -> Hashes:
    """Hash texts eight bytes at a time, all texts at once.

    Short texts are padded with zeros, so the length is hashed too.
    """
    _, offsets, data = array.buffers()
    ends = np.frombuffer(offsets, np.int64)[array.offset : array.offset + len(array) + 1]
    lengths = np.diff(ends)
    characters = np.frombuffer(data or b"\0", np.uint8)
    total = mix_bits(lengths)
    for start in range(0, int(lengths.max(initial=0)), 8):
        place = start + np.arange(8)
        at = np.minimum(ends[:-1, None] + place, len(characters) - 1)
        word = np.where(place < lengths[:, None], characters[at], np.uint8(0)).view(np.uint64)[:, 0]
        total = np.where(start < lengths, mix_bits(total ^ mix_bits(word, 1), 2), total)
    return total


def find_repeated_hashes(runs: Sequence[Path], rows: int) -> Hashes:
    """Find the hashes that occur more than once in all runs together; each run is a file of hashes in order.

    One slice of their range is in memory at a time.
    """
    slices = max(1, -(-rows // SLICE_HASHES))
    mapped = [np.memmap(run, np.uint64, "r") for run in runs if run.stat().st_size]
    bounds = find_bounds(mapped, slices)
    cuts = [[0, *np.searchsorted(run, bounds), len(run)] for run in mapped]
    repeated = [np.empty(0, np.uint64)]
    for i in range(len(bounds) + 1):
        here = np.sort(np.concatenate([run[c[i] : c[i + 1]] for run, c in zip(mapped, cuts, strict=True)]))
        repeated.append(here[1:][here[1:] == here[:-1]])
    return np.unique(np.concatenate(repeated))


def find_bounds(runs: Sequence[Hashes], slices: int) -> Hashes:
    """Find hashes that divide all runs together into slices of about the same size."""
    step = max(1, SLICE_HASHES // SAMPLES_PER_SLICE)
    sample = np.sort(np.concatenate([run[::step] for run in runs]))
    return np.unique(sample[[i * len(sample) // slices for i in range(1, slices)]])
