"""Ranking heads: the items that score high for each user, computed from released user and item vectors.

Nobody needs a history or a list for them. A defense that moves vectors a little can take them off the curved places
where undefended vectors lie. Which items then score high, and how many, tells on which side, though the vectors alone
do not show it to learners of their own (research/notes/lists.md). One score is the same limit for all users: the first
ten items of each user show less.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import sparse

from recveil.core.types import FloatArray, IntArray
from recveil.transport.row_keys import compute_row_keys

__all__ = ["mark_ranking_heads"]

HEAD_ITEMS = 100
"""Items of a head on average: about as many places as a list of ten reaches over if it leaves out seen items."""

MAX_CATALOG_SHARE = 0.25
"""Largest share of the catalog that a head may have on average."""


def mark_ranking_heads(
    x: FloatArray, score: Callable[[IntArray], FloatArray], *, block: int = 2**22
) -> sparse.csr_array:
    """Mark the items that score above one limit, the same for all users, in a user-by-item matrix.

    Args:
        x: vectors of the users.
        score: scores of all items for the users at these positions; one that is not a number marks nothing.
        block: scores held at a time.
    """
    n_items = score(np.arange(1)).shape[1]
    rows = max(1, block // n_items)
    sample = np.sort(np.argsort(compute_row_keys(x), kind="stable")[:rows])
    scores = np.nan_to_num(np.asarray(score(sample), dtype=np.float64).ravel(), nan=-np.inf)
    marked = round(min(HEAD_ITEMS / n_items, MAX_CATALOG_SHARE) * scores.size)
    limit = np.partition(scores, scores.size - 1 - marked)[scores.size - 1 - marked]
    users = np.arange(len(x))
    heads = [
        sparse.csr_array(np.asarray(score(users[start : start + rows])) > limit) for start in range(0, len(x), rows)
    ]
    return sparse.csr_array(sparse.vstack(heads), dtype=np.float32)
