"""Releases of trained models: top-k lists, computed in blocks, without seen items."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from scipy import sparse

from recveil.core.errors import UsageError
from recveil.core.protocols import PrivateRecommender, Recommender
from recveil.core.types import FloatArray, IntArray, Release, Split
from recveil.metrics.ranking import collect_seen_items

__all__ = ["compute_dot_scores", "keep_released_items", "make_release", "score_lists", "top_k"]


def top_k(
    score: Callable[[Any], Any], users: IntArray, k: int, seen: sparse.csr_array, *, block: int = 2**20
) -> IntArray:
    """List the k best unseen items of each user, best first.

    A list that ends early is filled with -1.

    Equal scores are listed by item id; which of the items tied at the last place are listed is left to the device. An
    item whose score is not a number is not listed.

    Args:
        score: scores every item for a batch of users.
        users: the users, by id.
        k: length of the lists.
        seen: sparse user-by-item matrix of the items that must not be listed.
        block: scores held at a time.
    """
    if k < 1:
        raise UsageError(f"k is {k}. A list needs at least one place.")
    n_items = seen.shape[1]
    lists = np.full((len(users), k), -1, dtype=np.int64)
    rows = max(1, block // max(n_items, 1))
    for start in range(0, len(users), rows):
        batch = users[start : start + rows]
        lists[start : start + rows, : min(k, n_items)] = _select_best(torch.as_tensor(score(batch)), seen[batch], k)
    return lists


def score_lists(score: Callable[[Any], Any], lists: IntArray, *, block: int = 2**20) -> FloatArray:
    """Score the items of each user's list; an empty place scores 0.

    Args:
        score: scores every item for a batch of users.
        lists: (n, k) items of users 0 to n - 1, -1 where a list has ended.
        block: scores held at a time.
    """
    scores = np.zeros(lists.shape, dtype=np.float32)
    n_items = torch.as_tensor(score(np.arange(1))).shape[1] if len(lists) else 0
    rows = max(1, block // max(n_items, 1))
    for start in range(0, len(lists), rows):
        part = slice(start, start + rows)
        batch = torch.as_tensor(score(np.arange(len(lists))[part])).float().cpu().numpy()
        scores[part] = np.where(lists[part] < 0, 0, np.take_along_axis(batch, np.maximum(lists[part], 0), axis=1))
    return scores


def _select_best(scores: torch.Tensor, seen: sparse.csr_array, k: int) -> IntArray:
    row = np.repeat(np.arange(seen.shape[0]), np.diff(seen.indptr))
    masked = torch.nan_to_num(scores.float(), nan=-torch.inf, posinf=torch.inf, neginf=-torch.inf)
    masked[torch.as_tensor(row), torch.as_tensor(seen.indices.astype(np.int64))] = -torch.inf
    value, item = torch.topk(masked, min(k, masked.shape[1]), dim=1)
    # topk leaves the order of equal scores open. Sorting by item makes the same scores give the same list.
    item, order = torch.sort(item, dim=1)
    value = value.gather(1, order)
    value, order = torch.sort(value, dim=1, descending=True, stable=True)
    item = item.gather(1, order).masked_fill(value == -torch.inf, -1)
    return item.cpu().numpy().astype(np.int64)


def make_release(model: Recommender, split: Split, k: int) -> Release:
    """Make the release of a model: vectors, top-k lists and scoring function.

    The lists leave out the items of training and validation, as the ranking of the test item does. A model with a
    privacy guarantee names the items that it covers and no other.

    Args:
        model: the trained model.
        split: the data it was trained on.
        k: length of the lists.
    """
    users = np.arange(split.train.n_users)
    lists = top_k(model.score, users, k, collect_seen_items(split.train, split.valid))
    return Release(model.user_vectors_, model.item_vectors_, keep_released_items(lists, model), model.score)


def keep_released_items(lists: IntArray, model: Recommender) -> IntArray:
    """Cut from lists the items that a model with a privacy guarantee must not name.

    They score lowest, so they are at the ends of lists.
    """
    if not isinstance(model, PrivateRecommender):
        return lists
    return np.where(np.isin(lists, model.released_items_), lists, -1)


def compute_dot_scores(
    user_table: FloatArray, item_table: FloatArray, users: IntArray, user_vectors: FloatArray | None = None
) -> FloatArray:
    """Compute the dot products of these users with every item.

    Args:
        user_table: vectors of all users.
        item_table: vectors of all items.
        users: the users to score for.
        user_vectors: rows of these users to use in place of those in the table.

    Raises:
        UsageError: the rows do not fit the item vectors.
    """
    rows = user_table[users] if user_vectors is None else np.ascontiguousarray(user_vectors, dtype=np.float32)
    if rows.shape != (len(users), item_table.shape[1]):
        raise UsageError(
            f"user_vectors has shape {rows.shape}; for {len(users)} users of this model it must be "
            f"{(len(users), item_table.shape[1])}."
        )
    return np.asarray(rows @ item_table.T)
