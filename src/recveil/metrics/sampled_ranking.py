"""Ranking among sampled candidates, and measures of several held-out items, as some papers report them.

A ranking among a few random candidates flatters every model, and need not order models as the whole catalog does
(Krichene and Rendle, KDD 2020). It is offered to meet a printed number on its own ground, not to choose by.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from scipy import sparse

from recveil.core.errors import UsageError
from recveil.core.types import Dataset, FloatArray
from recveil.metrics.ranking import Ranks, ScoreFunction, ndcg, recall

__all__ = ["capped_recall", "draw_candidates", "full_ndcg", "restrict_scores"]


def draw_candidates(held: Dataset, seen: sparse.csr_array, count: int, *, rng: np.random.Generator) -> sparse.csr_array:
    """Draw the candidates of each user: the held-out items, and `count` others that the user has not seen.

    Args:
        held: held-out interactions.
        seen: user-by-item matrix of the items that are no candidates.
        count: candidates beside the held-out items; all unseen items where there are fewer.
        rng: source of the draws, one stream for all users in their order.

    Returns:
        A user-by-item matrix with an entry for each candidate.
    """
    if count < 1:
        raise UsageError(f"count is {count}. It must be at least 1.")
    own = sparse.csr_array((np.ones(len(held)), (held.user, held.item)), shape=seen.shape)
    taken = sparse.csr_array(own + seen)
    columns, sizes = [], np.zeros(held.n_users, dtype=np.int64)
    for user in range(held.n_users):
        free = np.ones(held.n_items, dtype=np.bool_)
        free[taken.indices[taken.indptr[user] : taken.indptr[user + 1]]] = False
        chosen = rng.permutation(np.flatnonzero(free))[:count]
        columns.append(np.concatenate([chosen, own.indices[own.indptr[user] : own.indptr[user + 1]]]))
        sizes[user] = len(columns[-1])
    indices, starts = np.concatenate(columns), np.concatenate([[0], np.cumsum(sizes)])
    return sparse.csr_array((np.ones(len(indices), dtype=np.bool_), indices, starts), shape=seen.shape)


def restrict_scores(score: ScoreFunction, candidates: sparse.csr_array) -> ScoreFunction:
    """Return the scoring function with every item that is no candidate scored below all others."""

    def score_candidates(users: Any) -> torch.Tensor:
        scores = torch.as_tensor(score(users)).clone()
        allowed = torch.as_tensor(candidates[np.asarray(users)].toarray(), device=scores.device)
        return scores.masked_fill_(~allowed, -torch.inf)

    return score_candidates


def capped_recall(ranks: Ranks, k: int) -> FloatArray:
    """Compute for each user the hits among the first k over min(k, held-out items)."""
    held_out = np.bincount(ranks.owner, minlength=len(ranks.users))
    return np.asarray(recall(ranks, k) * held_out / np.minimum(held_out, k))


def full_ndcg(ranks: Ranks, k: int) -> FloatArray:
    """Compute for each user the discounted gain of the first k over that of k hits, however many items are held out."""
    total = np.cumsum(1.0 / np.log2(np.arange(k) + 2.0))
    held_out = np.bincount(ranks.owner, minlength=len(ranks.users))
    return np.asarray(ndcg(ranks, k) * total[np.minimum(held_out, k) - 1] / total[-1])
