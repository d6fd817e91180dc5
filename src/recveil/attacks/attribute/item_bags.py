"""Bags of items: one sparse row of numbers for each user, reduced to a few hundred columns."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from recveil.core.errors import DataError
from recveil.core.types import Release

__all__ = ["build_bag", "reduce_bag", "turn_to_main_directions", "weight_items"]

Table = NDArray[np.float32]

EXTRA_DIRECTIONS = 16
"""Directions computed beyond the requested ones, which makes the last requested ones accurate."""

SUBSPACE_STEPS = 4
"""Steps of subspace iteration."""

MIN_RELATIVE_SPREAD = 1e-5
"""Spread of a direction, relative to the largest, below which it is rounding error."""

GRAM_BLOCK_ROWS = 2**14
"""Rows that are converted to double precision at a time."""


def build_bag(release: Release, weight: str) -> sparse.csr_array:
    """Build the sparse user-by-item matrix of the listed items."""
    assert release.lists is not None
    user, place = np.nonzero(release.lists >= 0)
    item = release.lists[user, place]
    if not len(item):
        raise DataError("Every list of this release is empty. Give lists with items, or use another surface.")
    n_items = int(item.max()) + 1
    if release.item_vectors is not None:
        if n_items > len(release.item_vectors):
            raise DataError(
                f"The lists name item {n_items - 1}, and there are vectors for {len(release.item_vectors)} items only. "
                f"Number the items of the lists by the rows of the item vectors, from 0."
            )
        n_items = len(release.item_vectors)
    by_place = 1 / np.log2(np.arange(2, release.lists.shape[1] + 2, dtype=np.float32))
    value = by_place[place] if weight == "rank" else np.ones(len(user), dtype=np.float32)
    return sparse.csr_array((value, (user, item)), shape=(len(release.lists), n_items))


def weight_items(bag: sparse.csr_array, weight: str) -> sparse.csr_array:
    """Count each pair of user and item once, and weight rare items as configured."""
    bag.sum_duplicates()
    np.minimum(bag.data, 1, out=bag.data)
    if weight == "rare":
        owners = np.bincount(bag.indices, minlength=bag.shape[1])
        bag.data *= np.log1p(bag.shape[0] / owners[bag.indices]).astype(np.float32)
    return bag


def reduce_bag(bag: sparse.csr_array, columns: int, rng: np.random.Generator) -> Table:
    """Return the columns of a bag of few items, or the main directions of many."""
    bag = bag[:, np.unique(bag.indices)]
    if bag.shape[1] <= columns:
        return np.asarray(bag.toarray(), dtype=np.float32)
    # Subspace iteration on the side of the items, which do not grow with the users.
    axes = rng.standard_normal((bag.shape[1], min(columns + EXTRA_DIRECTIONS, *bag.shape)), dtype=np.float32)
    for _ in range(SUBSPACE_STEPS):
        axes = np.linalg.qr(bag.T @ (bag @ axes))[0]
    return turn_to_main_directions(np.asarray(bag @ axes), columns)


def turn_to_main_directions(x: Table, columns: int) -> Table:
    """Turn the table to at most `columns` of its principal axes.

    Axes of rounding error are dropped. Attacks scale every column to variance 1, which would turn a column of rounding
    error into strong noise.
    """
    x = x - x.mean(axis=0, dtype=np.float64).astype(np.float32)
    spread, turn = np.linalg.eigh(_compute_gram(x))
    spread, turn = spread[::-1][:columns], turn[:, ::-1][:, :columns]
    is_large = spread > MIN_RELATIVE_SPREAD**2 * spread[0]
    is_large[0] = True
    return np.asarray(x @ turn[:, is_large].astype(np.float32))


def _compute_gram(x: Table) -> NDArray[np.float64]:
    """Compute the products of all pairs of columns in double precision, in blocks."""
    total = np.zeros((x.shape[1], x.shape[1]))
    for start in range(0, len(x), GRAM_BLOCK_ROWS):
        block = x[start : start + GRAM_BLOCK_ROWS].astype(np.float64)
        total += block.T @ block
    return total
