"""Ranking heads: the first items of each user's whole ranking, computed from released user and item vectors.

Nobody needs a history or a list for them. A defense that moves vectors a little can take them off the curved places
where undefended vectors lie; which items then lead a ranking tells on which side, though the vectors alone do not show
it to learners of their own (research/notes/lists.md).
"""

from __future__ import annotations

import numpy as np

from recveil.core.types import FloatArray, IntArray

__all__ = ["list_ranking_heads"]


def list_ranking_heads(users: FloatArray, items: FloatArray, k: int, block: int = 2**22) -> IntArray:
    """List the k items of the largest products for each user, in no order.

    Args:
        users: user vectors.
        items: item vectors.
        k: items of a head; all items if there are fewer.
        block: scores held at a time.
    """
    k, rows = min(k, len(items)), max(1, block // len(items))
    heads = np.empty((len(users), k), dtype=np.int64)
    for start in range(0, len(users), rows):
        scores = users[start : start + rows] @ items.T
        heads[start : start + rows] = np.argpartition(-scores, k - 1, axis=1)[:, :k]
    return heads
