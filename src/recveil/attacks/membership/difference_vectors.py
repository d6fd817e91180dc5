"""Difference vectors: the mean item vector of a history less that of a list.

Zhang et al. (CCS 2021) and Chi et al. (2024): a recommender knows its members, so the lists of members lie nearer to
their histories.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from recveil.core.errors import DataError
from recveil.core.types import BoolArray, FloatArray, IntArray, Watched

__all__ = [
    "MissingVectors",
    "average_frequent_items",
    "compare_distances",
    "compute_difference_vectors",
    "compute_mean_vectors",
    "count_missing_vectors",
    "flatten_histories",
    "get_item_vectors",
]


@dataclass(frozen=True)
class MissingVectors:
    """Number of items without a vector, which are left out of every mean."""

    in_histories: int
    in_lists: int


def compute_difference_vectors(watched: Watched, *, rank_weights: bool = False) -> NDArray[np.float32]:
    """Compute the mean item vector of each history less that of each list.

    With `rank_weights` the j-th of k listed items (from 0) counts k - j times, as in the code of CCS 2021. Items
    without a vector are left out (`count_missing_vectors` counts them).

    Raises:
        DataError: no item in the history or in the list of a user has a vector.
    """
    history_means, list_means = compute_mean_vectors(watched, rank_weights=rank_weights)
    return history_means - list_means


def compute_mean_vectors(
    watched: Watched, *, rank_weights: bool = False
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Compute the mean item vectors of the histories and of the lists."""
    vectors = get_item_vectors(watched)
    n, k = watched.lists.shape
    owner, item = flatten_histories(watched.histories)
    place = np.tile(np.arange(k), n)
    weight = k - place if rank_weights else np.ones(n * k)
    history_means = _average_items(owner, item, np.ones(len(item)), n, vectors, "history")
    list_owner, listed = np.repeat(np.arange(n), k), watched.lists.reshape(-1)
    return history_means, _average_items(list_owner, listed, weight, n, vectors, "list")


def compare_distances(watched: Watched, center: FloatArray, *, neutral: float) -> FloatArray:
    """Compute |R - C| / (|R - C| + |I - R|), where R is the mean of a list, I of the history, and C a center.

    It runs from 0 (the list is the center) to 1 (the list is the history); `neutral` stands where all three coincide.
    """
    history_means, list_means = compute_mean_vectors(watched)
    to_history = np.linalg.norm(history_means - list_means, axis=1).astype(np.float64)
    to_center = np.linalg.norm(list_means - center, axis=1).astype(np.float64)
    total = to_history + to_center
    return np.asarray(np.divide(to_center, total, out=np.full(len(total), neutral), where=total > 0))


def average_frequent_items(vectors: FloatArray, counts: FloatArray | IntArray, k: int) -> FloatArray:
    """Compute the mean vector of the k items with the highest counts, of those that have a vector."""
    known = np.where(np.all(np.isfinite(vectors), axis=1), counts[: len(vectors)], 0)
    top = np.argsort(-known, kind="stable")[:k]
    return np.asarray(vectors[top[known[top] > 0]].mean(0))


def count_missing_vectors(watched: Watched) -> MissingVectors:
    """Count the items of the histories and of the lists that have no vector."""
    vectors = get_item_vectors(watched)
    _, item = flatten_histories(watched.histories)
    listed = watched.lists[watched.lists >= 0]
    return MissingVectors(int((~_has_vector(item, vectors)).sum()), int((~_has_vector(listed, vectors)).sum()))


def get_item_vectors(watched: Watched) -> FloatArray:
    """Return the item vectors that the outsider has, (items, d); none is an error."""
    if watched.item_vectors is None or watched.item_vectors.ndim != 2 or not watched.item_vectors.size:
        raise DataError("No table of item vectors was given. This attack compares the items of histories and lists.")
    return watched.item_vectors


def flatten_histories(histories: Sequence[IntArray]) -> tuple[IntArray, IntArray]:
    """Return the user and the item of every interaction, in order."""
    rows = [np.asarray(history, dtype=np.int64) for history in histories]
    lengths = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
    return np.repeat(np.arange(len(rows)), lengths), np.concatenate([np.empty(0, np.int64), *rows])


def _has_vector(item: IntArray, vectors: FloatArray) -> BoolArray:
    is_finite: BoolArray = np.all(np.isfinite(vectors), axis=1)
    is_inside = (item >= 0) & (item < len(vectors))
    has_vector: BoolArray = is_inside & is_finite[np.where(is_inside, item, 0)]
    return has_vector


def _average_items(
    owner: IntArray, item: IntArray, weight: FloatArray, n: int, vectors: FloatArray, source: str
) -> NDArray[np.float32]:
    """Average the vectors of each user's items by weight.

    `source` names the items in errors.
    """
    keep = _has_vector(item, vectors)
    matrix = sparse.csr_array((weight[keep], (owner[keep], item[keep])), shape=(n, len(vectors)), dtype=np.float32)
    total = np.asarray(matrix.sum(1))
    if not (total > 0).all():
        empty = np.flatnonzero(~(total > 0))
        raise DataError(
            f"{len(empty)} of {n} users have no item with a vector in their {source}, the first in row {empty[0]}. "
            "Leave these users out."
        )
    finite = np.where(np.isfinite(vectors), vectors, 0).astype(np.float32)  # a NaN times a weight of 0 is a NaN
    return np.asarray(matrix @ finite / total[:, None], dtype=np.float32)
