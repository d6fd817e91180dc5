"""Nearest neighbors: one search in the whole table serves all tasks."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import StandardScaler

from recveil.attacks.attribute.tasks import Task
from recveil.core.device import resolve_device
from recveil.core.option_types import Count
from recveil.core.progress import track_progress
from recveil.core.traits import AttackTraits
from recveil.core.types import FloatArray, IntArray
from recveil.transport.kernel_regression import compute_distances

__all__ = ["Neighbors"]

METHODS = (AttackTraits("knn", builder="Neighbors", panels=("fast", "full"), rank=70),)

BLOCK_ROWS = 10_000
"""Users whose neighbors are held at once."""

DEVICE_ROWS = 2_048
"""Users whose distances to all others an accelerator holds at once."""

SPARE_NEIGHBORS = 1.5
"""Neighbors that are searched, relative to those of which `k` are expected among the training users of a task."""

DEPTH_STEP = 16
"""Numbers of neighbors that are searched are multiples of this, so that repeats whose folds differ by a user agree."""

SEARCHES_KEPT = 4
"""Searches whose answers are kept: two for the static attacker, who meets users in two tables, and those of the
self-check and the audit after a defense, between which the static attacker searches again."""

MAX_KEPT_BYTES = 1 << 28
"""Bytes of the answers that are kept besides the last one."""

_LAST_SEARCHES: dict[str, IntArray] = {}
"""Neighbors by a digest of the search: the repeats of an audit search the same table, one after the other."""


@dataclass(frozen=True)
class Neighbors:
    """k nearest neighbors whose votes are divided by the size of their class.

    Neighbors of a user are searched once among all users that are known in any task. A task counts the nearest k of
    them that it knows, and searches again for the few users of whose neighbors it knows fewer. Of more than `max_users`
    known users a sample is kept, so that the cost grows linearly with the users. Columns are standardized by all known
    users. An accelerator searches by itself; users at equal distances may come in another order there.
    """

    k: Count = 25
    max_users: Count = 12_500
    device: str | None = None

    def guess(
        self, x: FloatArray, y: IntArray, n_classes: int, tasks: Sequence[Task], *, rng: np.random.Generator
    ) -> list[FloatArray]:
        """Return the shares of the weighted votes for the test users of each task."""
        known = self._sample_users(y, tasks, rng)
        scaler = StandardScaler().fit(np.asarray(x[known], dtype=np.float64))
        is_known = [np.isin(known, task.train) for task in tasks]
        guesses = [np.empty((len(task.test), n_classes), dtype=np.float32) for task in tasks]
        table = _scale(scaler, x[known])
        share = min(float(flags.mean()) for flags in is_known)
        depth = int(SPARE_NEIGHBORS * self.k / share) + self.k
        depth = min(len(known), -(-depth // DEPTH_STEP) * DEPTH_STEP)
        users = np.unique(np.concatenate([task.test for task in tasks]))
        device = resolve_device(self.device)
        for start in track_progress(range(0, len(users), BLOCK_ROWS), "attacking: knn", -(-len(users) // BLOCK_ROWS)):
            block = users[start : start + BLOCK_ROWS]
            rows = _scale(scaler, x[block])
            near = _search_neighbors(table, rows, depth, device)
            for task, flags, guess in zip(tasks, is_known, guesses, strict=True):
                place = np.flatnonzero((task.test >= block[0]) & (task.test <= block[-1]))
                of_block = np.searchsorted(block, task.test[place])
                voters = self._select_voters(table, rows[of_block], near[of_block], flags)
                guess[place] = _count_votes(voters, y[known], flags, n_classes)
        return guesses

    def _sample_users(self, y: IntArray, tasks: Sequence[Task], rng: np.random.Generator) -> IntArray:
        """Draw the users to search among: at most `max_users`, and one of every class in every task."""
        known = np.unique(np.concatenate([task.train for task in tasks]))
        if len(known) <= self.max_users:
            return known
        kept = [rng.permutation(known)[: self.max_users]]
        kept += [task.train[np.unique(y[task.train], return_index=True)[1]] for task in tasks]
        return np.unique(np.concatenate(kept))

    def _select_voters(
        self, table: FloatArray, rows: FloatArray, near: IntArray, is_known: NDArray[np.bool_]
    ) -> IntArray:
        """Return the nearest k known users of each row, as positions among all that were searched."""
        k, positions = min(self.k, int(is_known.sum())), np.flatnonzero(is_known)
        hits = is_known[near]
        place = hits.cumsum(1, dtype=np.int32)  # of each hit among those of its row, the nearest first
        is_short = place[:, -1] < k
        voters = np.empty((len(near), k), dtype=near.dtype)
        voters[~is_short] = near[hits & (place <= k) & ~is_short[:, None]].reshape(-1, k)
        if is_short.any():
            again = NearestNeighbors(n_neighbors=k, algorithm="brute").fit(table[positions])
            voters[is_short] = positions[again.kneighbors(rows[is_short], return_distance=False)]
        return voters


def _search_neighbors(table: FloatArray, rows: FloatArray, depth: int, device: torch.device) -> IntArray:
    """Return the numbers of the rows of `table` that are nearest to each of `rows`; the last answers are kept."""
    digest = hashlib.blake2b(repr((table.shape, rows.shape, depth)).encode())
    for array in (table, rows):
        digest.update(np.ascontiguousarray(array).data)
    key = digest.hexdigest()
    near = _LAST_SEARCHES.pop(key, None)
    if near is None:
        near = _find_nearest(table, rows, depth, device)
    while len(_LAST_SEARCHES) >= SEARCHES_KEPT or sum(kept.nbytes for kept in _LAST_SEARCHES.values()) > MAX_KEPT_BYTES:
        del _LAST_SEARCHES[next(iter(_LAST_SEARCHES))]
    _LAST_SEARCHES[key] = near
    return near


def _find_nearest(table: FloatArray, rows: FloatArray, depth: int, device: torch.device) -> IntArray:
    if device.type == "cpu":
        search = NearestNeighbors(algorithm="brute").fit(table)
        return np.asarray(search.kneighbors(rows, depth, return_distance=False))
    return search_on_device(table, rows, depth, device)


def search_on_device(table: FloatArray, rows: FloatArray, depth: int, device: torch.device) -> IntArray:
    """Return the numbers of the `depth` rows of `table` nearest to each of `rows`, the nearest first, by torch."""
    users = torch.as_tensor(table, device=device)
    blocks = torch.split(torch.as_tensor(rows, device=device), DEVICE_ROWS)
    near = [compute_distances(block, users).topk(depth, largest=False).indices for block in blocks]
    return np.asarray(torch.cat(near).cpu().numpy(), dtype=np.int64)


def _scale(scaler: StandardScaler, x: FloatArray) -> FloatArray:
    """Standardize in double precision, since in single precision the square of a small number is zero."""
    return np.asarray(scaler.transform(np.asarray(x, dtype=np.float64)), dtype=np.float32)


def _count_votes(voters: IntArray, y: IntArray, is_known: NDArray[np.bool_], n_classes: int) -> FloatArray:
    """Return the share of each class in the votes, each divided by the size of the voter's class."""
    weight = 1 / np.maximum(np.bincount(y[is_known], minlength=n_classes), 1)
    classes = y[voters]
    cells = np.arange(len(voters))[:, None] * n_classes + classes
    votes = np.bincount(cells.ravel(), weight[classes].ravel(), minlength=len(voters) * n_classes)
    votes = votes.reshape(len(voters), n_classes)
    return np.asarray(votes / votes.sum(1, keepdims=True))
