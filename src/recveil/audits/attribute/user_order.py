"""The order of the users of an audit, and users who occur more than once.

An audit draws folds and random numbers user by user, so the order of the users decides its numbers. That order is
derived from the ids and the seed, or from the rows where there are no ids: the same table gives the same audit in any
order of its rows.

A user who stands in the table twice would be known to the attacker and attacked at once, which looks like a leak.
Copies and near copies are therefore found and kept in one fold.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from recveil.core.types import FloatArray, IntArray
from recveil.data.io.ids import Ids, normalize_ids

__all__ = ["find_copies", "hash_rows", "order_users"]

MAX_COPIES = 10
"""Equal rows beyond this are a point that different users share, not one user."""

MIN_DISTINCT_SHARE = 0.25
"""Where fewer of the rows are distinct, rows do not tell users apart and equal rows are no copies."""

NEAR_RATIO = 0.25
"""A near copy is closer than this share of the distance to the neighbors beyond all copies, or than a smaller one."""

CHANCE_OF_NEAR_COPY = 1e-4
"""Bound on the probability that a user of a smooth distribution is taken for a near copy."""

MAX_DIMENSIONS = 6
"""Neighbors are searched in random projections to this many dimensions, in which a tree is quick."""

MAX_ESTIMATED_DIMENSION = 50.0
MIN_USERS_FOR_NEAR_COPIES = 50
MAX_USERS_COMPARED = 5_000
"""Up to so many users are all compared with each other."""


def order_users(x: FloatArray, codes: FloatArray | IntArray, seed: int, ids: Ids | None = None) -> IntArray:
    """Return the rows in an order that depends on the ids (or the contents of the rows) and the seed alone.

    Args:
        x: user vectors.
        codes: class or number of each user; it orders rows that are equal.
        seed: another seed gives another order.
        ids: id of each row; the rows themselves serve where there are none.
    """
    if ids is None:
        keys = hash_rows(x, seed)
    else:
        keys = _hash_texts((str(i).encode() for i in normalize_ids(ids, "the table").to_pylist()), seed)
    return np.lexsort((codes, keys)).astype(np.int64)


def hash_rows(x: FloatArray, seed: int = 0) -> IntArray:
    """Return a 64-bit hash of each row in single precision; equal rows have equal hashes."""
    rows = np.ascontiguousarray(x, dtype=np.float32) + np.float32(0)  # -0.0 becomes 0.0
    return _hash_texts((row.tobytes() for row in rows), seed)


def _hash_texts(texts: Iterable[bytes], seed: int) -> IntArray:
    salt = (seed % 2**64).to_bytes(8, "little")
    digests = b"".join(hashlib.blake2b(text, digest_size=8, salt=salt).digest() for text in texts)
    return np.frombuffer(digests, dtype="<i8").astype(np.int64)


def find_copies(x: FloatArray, folds: int) -> tuple[IntArray, list[str]]:
    """Find users who occur more than once; return the group of each row, and notes on what was found.

    A group of more than MAX_COPIES rows, or of more than half a fold, is not kept together: there the shared point may
    itself be the leak (users without interactions, say), and one fold would hide it.
    """
    n = len(x)
    groups = np.unique(hash_rows(x), return_inverse=True)[1].astype(np.int64)
    most = max(2, min(MAX_COPIES, n // (2 * folds)))
    groups, shared = _dissolve_large_groups(groups, most)
    distinct = np.unique(groups[~shared], return_index=True)[1]
    if len(distinct) < MIN_DISTINCT_SHARE * (~shared).sum():
        return np.arange(n, dtype=np.int64), [
            f"{n:,} users share {len(distinct):,} rows; no user was taken for a copy."
        ]
    groups = _join_near_copies(x, groups, np.flatnonzero(~shared)[distinct])
    groups, chained = _dissolve_large_groups(groups, most)
    sizes = np.bincount(groups, minlength=n)[groups]
    copies, points = int((sizes > 1).sum()), int((shared | chained).sum())
    notes = []
    if copies > 0.005 * n:
        notes.append(f"{copies:,} of {n:,} users are copies or near copies of others; copies were kept in one fold.")
    if points > 0.005 * n:
        notes.append(f"{points:,} of {n:,} users share their row with more than {most} others; these are no copies.")
    return groups, notes


def _dissolve_large_groups(groups: IntArray, most: int) -> tuple[IntArray, np.ndarray]:
    """Make every row of a group of more than `most` a group of its own; return the groups and a mask of these rows."""
    is_large = np.bincount(groups)[groups] > most
    alone = groups.max(initial=0) + 1 + np.arange(len(groups))
    return np.unique(np.where(is_large, alone, groups), return_inverse=True)[1].astype(np.int64), is_large


def _join_near_copies(x: FloatArray, groups: IntArray, distinct: IntArray) -> IntArray:
    """Join groups whose first rows (`distinct`) are far closer than the distance between neighbors.

    With q dimensions of a smooth distribution the nearest of k neighbors lies within a share r of the distance to the
    k-th with a probability of about (k - 1) r^q; r is chosen by it, with the dimension found around each user.
    """
    n, k = len(distinct), MAX_COPIES + 2
    if n < MIN_USERS_FOR_NEAR_COPIES:
        return groups
    distance, neighbor = _find_neighbors(np.asarray(x[distinct], dtype=np.float64), k)
    chance = (CHANCE_OF_NEAR_COPY / (k - 1)) ** (1 / _estimate_dimensions(distance, neighbor))
    ratio = np.minimum(NEAR_RATIO, chance)
    row, place = np.nonzero(distance[:, :-1] < (ratio * distance[:, -1])[:, None])
    if not len(row):
        return groups
    links = sparse.coo_matrix(
        (np.ones(len(row)), (groups[distinct[row]], groups[distinct[neighbor[row, place]]])),
        shape=(groups.max() + 1, groups.max() + 1),
    )
    merged: IntArray = connected_components(links, directed=False)[1][groups].astype(np.int64)
    return merged


def _find_neighbors(x: FloatArray, k: int) -> tuple[FloatArray, IntArray]:
    """Find the k nearest other rows, after columns were standardized; of many rows in random projections."""
    z = _standardize_columns(x)
    if len(z) > MAX_USERS_COMPARED:
        z = _project_rows(z)
        distance, neighbor = cKDTree(z).query(z, k + 1)
    else:
        from sklearn.neighbors import NearestNeighbors

        # The brute search loses the digits of small distances, so they are computed again.
        neighbor = NearestNeighbors(n_neighbors=k + 1, algorithm="brute").fit(z).kneighbors(z, return_distance=False)
        distance = np.stack([np.sqrt(np.square(z - z[column]).sum(axis=1)) for column in neighbor.T], axis=1)
        order = np.argsort(distance, axis=1, kind="stable")
        distance, neighbor = np.take_along_axis(distance, order, 1), np.take_along_axis(neighbor, order, 1)
    return distance[:, 1:], neighbor[:, 1:].astype(np.int64)


def _estimate_dimensions(distance: FloatArray, neighbor: IntArray) -> FloatArray:
    """Estimate the dimension that users spread in around each user (after Levina and Bickel 2004).

    Of k points in a ball of q dimensions, q log(r_k / r_j) is on average the sum of 1 / i for i from j to k - 1. The
    nearer half of the neighbors is left out, since copies may be among them, and neighbors are averaged by the median.
    """
    k = distance.shape[1]
    ranks = np.arange(k // 2, k)
    expected = sum(np.sum(1 / np.arange(j, k)) for j in ranks)
    tiny = np.finfo(np.float64).tiny
    spread = np.log((distance[:, -1:] + tiny) / (distance[:, ranks - 1] + tiny)).sum(axis=1)
    typical = np.median(spread[neighbor], axis=1)
    dimensions: FloatArray = np.clip(expected / np.maximum(typical, tiny), 1.0, MAX_ESTIMATED_DIMENSION)
    return dimensions


def _standardize_columns(x: FloatArray) -> FloatArray:
    spread = x.std(axis=0)
    varies = spread > 0
    z: FloatArray = (x[:, varies] - x[:, varies].mean(axis=0)) / spread[varies]
    return z


def _project_rows(z: FloatArray) -> FloatArray:
    """Project standardized columns to at most MAX_DIMENSIONS."""
    if z.shape[1] <= MAX_DIMENSIONS:
        return z
    directions = np.random.default_rng(0).standard_normal((z.shape[1], MAX_DIMENSIONS))
    projected: FloatArray = z @ (directions / np.sqrt(z.shape[1]))
    return projected
