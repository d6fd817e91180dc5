"""Omissions: the items that a list lacks although they should stand above its last item.

What should stand there is known from the scores of the release or, where vectors of users and items are released, from
their products. Without either, items are expected in the order of how many lists name them.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from recveil.core.errors import DataError
from recveil.core.types import FloatArray, IntArray, Release

__all__ = ["find_omissions"]


def find_omissions(release: Release, block: int = 2**22) -> sparse.csr_array:
    """Find for each user the unlisted items that are expected above the last listed one.

    Args:
        release: lists, and what else is released.
        block: scores held at a time.

    Returns:
        A user-by-item matrix of ones.

    Raises:
        DataError: every list is empty, or a list names an item that has no score.
    """
    assert release.lists is not None
    lists = release.lists
    if not (lists >= 0).any():
        raise DataError("Every list of this release is empty. Give lists with items, or use another surface.")
    n_items = _expect(release, np.arange(1)).shape[1]
    if lists.max() >= n_items:
        raise DataError(
            f"The lists name item {lists.max()}, and there are scores of {n_items} items only. "
            "Number the items of the lists by the columns of the scores, from 0."
        )
    rows = max(1, block // n_items)
    found = [_find_in_block(release, np.arange(at, min(at + rows, len(lists)))) for at in range(0, len(lists), rows)]
    return sparse.csr_array(sparse.vstack(found, format="csr"))


def _find_in_block(release: Release, users: IntArray) -> sparse.csr_array:
    assert release.lists is not None
    lists, scores = release.lists[users], _expect(release, users)
    row, place = np.nonzero(lists >= 0)
    is_listed = np.zeros(scores.shape, dtype=np.bool_)
    is_listed[row, lists[row, place]] = True
    lowest = np.where(is_listed, scores, np.inf).min(axis=1, keepdims=True)
    # A user without a list is no evidence: no item is above infinity.
    is_missing = ~is_listed & (scores > lowest)
    return sparse.csr_array(is_missing.astype(np.float32))


def _expect(release: Release, users: IntArray) -> FloatArray:
    """Return the scores of these users, or how many lists name each item where there are none."""
    if release.score is not None:
        return np.asarray(release.score(users))
    if release.user_vectors is not None and release.item_vectors is not None:
        return np.asarray(release.user_vectors[users] @ release.item_vectors.T)
    assert release.lists is not None
    counts = np.bincount(release.lists[release.lists >= 0])
    return np.broadcast_to(counts, (len(users), len(counts)))
