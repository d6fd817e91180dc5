"""What an outsider computes for each user: the mean of what was touched less the mean of what was recommended.

The difference vector of Zhang et al. (CCS 2021) and Chi et al. (2024): a recommender knows its members, so what it
lists for them lies nearer to what they touched.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from recveil.core.errors import DataError
from recveil.core.types import FloatArray, IntArray, Watched

__all__ = [
    "MissingVectors",
    "compute_difference_vectors",
    "count_missing_vectors",
    "flatten_histories",
    "compute_mean_vectors",
    "get_item_vectors",
]


@dataclass(frozen=True)
class MissingVectors:
    """How many touched and listed items have no vector and are therefore left out of every mean."""

    touched: int
    listed: int


def compute_difference_vectors(watched: Watched, *, rank_weights: bool = False) -> NDArray[np.float32]:
    """Mean of the touched item vectors less mean of the listed ones: one row for each user.

    With `rank_weights` the j-th of k listed items (from 0) counts k - j times, as in the code of CCS 2021. Items
    without a vector are left out (`dropped` counts them); a user of whom nothing remains is an error.
    """
    touched, listed = compute_mean_vectors(watched, rank_weights=rank_weights)
    return touched - listed


def compute_mean_vectors(
    watched: Watched, *, rank_weights: bool = False
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """The mean touched and the mean listed item vector of each user."""
    vectors = get_item_vectors(watched)
    n, k = watched.lists.shape
    owner, item = flatten_histories(watched.histories)
    place = np.tile(np.arange(k), n)
    weight = k - place if rank_weights else np.ones(n * k)
    touched = _average_items(owner, item, np.ones(len(item)), n, vectors, "history")
    listed = _average_items(np.repeat(np.arange(n), k), watched.lists.reshape(-1), weight, n, vectors, "list")
    return touched, listed


def count_missing_vectors(watched: Watched) -> MissingVectors:
    """How many items of the histories and of the lists have no vector."""
    vectors = get_item_vectors(watched)
    _, item = flatten_histories(watched.histories)
    listed = watched.lists[watched.lists >= 0]
    return MissingVectors(int((~_has_vector(item, vectors)).sum()), int((~_has_vector(listed, vectors)).sum()))


def get_item_vectors(watched: Watched) -> FloatArray:
    """The item vectors the outsider has, (items, d)."""
    if watched.item_vectors is None or watched.item_vectors.ndim != 2 or not watched.item_vectors.size:
        raise DataError("No table of item vectors was given. This attack compares what users touched with their lists.")
    return watched.item_vectors


def flatten_histories(histories: Sequence[IntArray]) -> tuple[IntArray, IntArray]:
    """Who and what, for every touch of every history, in order."""
    rows = [np.asarray(history, dtype=np.int64) for history in histories]
    lengths = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
    return np.repeat(np.arange(len(rows)), lengths), np.concatenate([np.empty(0, np.int64), *rows])


def _has_vector(item: IntArray, vectors: FloatArray) -> NDArray[np.bool_]:
    whole: NDArray[np.bool_] = np.all(np.isfinite(vectors), axis=1)
    inside = (item >= 0) & (item < len(vectors))
    known: NDArray[np.bool_] = inside & whole[np.where(inside, item, 0)]
    return known


def _average_items(
    owner: IntArray, item: IntArray, weight: FloatArray, n: int, vectors: FloatArray, what: str
) -> NDArray[np.float32]:
    keep = _has_vector(item, vectors)
    matrix = sparse.csr_array((weight[keep], (owner[keep], item[keep])), shape=(n, len(vectors)), dtype=np.float32)
    total = np.asarray(matrix.sum(1))
    if not (total > 0).all():
        empty = np.flatnonzero(~(total > 0))
        raise DataError(
            f"{len(empty)} of {n} users have no item with a vector in their {what}, the first in row {empty[0]}. "
            "Leave these users out."
        )
    known = np.where(np.isfinite(vectors), vectors, 0).astype(np.float32)  # a NaN times a weight of 0 is a NaN
    return np.asarray(matrix @ known / total[:, None], dtype=np.float32)
