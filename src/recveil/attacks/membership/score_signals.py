"""Signals of how well a recommender knows the items of its users."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from recveil.attacks.membership.difference_vectors import flatten_histories
from recveil.core.device import resolve_device
from recveil.core.errors import DataError, unknown_name
from recveil.core.types import FloatArray, IntArray

__all__ = ["SIGNALS", "PairSignals", "compute_pair_signals"]

SIGNALS = ("log-odds", "bpr-margin", "rank-percentile", "self-score")

BLOCK_SCORES = 1 << 24
"""Scores held at once."""

N_CHUNKS = 16

ScoreUsers = Callable[[IntArray], FloatArray]
"""Users to their scores of all items, (len(users), n_items): `Recommender.score`."""


@dataclass(frozen=True, eq=False)
class PairSignals:
    """A signal for each user-item pair of the histories, user by user."""

    user: IntArray
    item: IntArray
    value: FloatArray


def compute_pair_signals(
    score: ScoreUsers, histories: Sequence[IntArray], kind: str, *, device: str | None = "cpu"
) -> PairSignals:
    """Compute how well a model knows each item of each history.

    Args:
        score: scores of all items for users; user u of the model is row u of the histories.
        histories: items of each user.
        kind: `"log-odds"` is the score itself, which is the log-odds for models trained by binary cross-entropy;
            `"bpr-margin"` the score less the mean score of the items that are not in the history; `"rank-percentile"`
            the share of those items that score lower (ties count half), kept off 0 and 1 by half an item so that its
            log-odds exist; `"self-score"` the score itself, to be summed over the history by the weights of the
            model's rows.
        device: device to rank on; None chooses one.

    Raises:
        DataError: a history is empty, holds every item, or names an item that the model does not score.
    """
    if kind not in SIGNALS:
        raise unknown_name("signal", kind, SIGNALS)
    user, item = flatten_histories(histories)
    n = len(histories)
    lengths = np.bincount(user, minlength=n)
    if n == 0 or (lengths == 0).any():
        raise DataError(f"{int((lengths == 0).sum())} of {n} users have an empty history. Leave these users out.")
    value, start, block_users = np.empty(len(user)), 0, 1  # one user first, to learn the number of items
    while start < n:
        users = np.arange(start, min(n, start + block_users))
        scores = np.asarray(score(users))
        rows = slice(*np.searchsorted(user, [start, start + len(users)]))
        value[rows] = _compute_block(scores, user[rows] - start, item[rows], kind, device)
        start, block_users = start + len(users), max(1, BLOCK_SCORES // scores.shape[1])
    return PairSignals(user, item, value)


def _compute_block(scores: FloatArray, user: IntArray, item: IntArray, kind: str, device: str | None) -> FloatArray:
    """Compute the signals of the pairs of one block of users."""
    n_items = scores.shape[1]
    if item.min() < 0 or item.max() >= n_items:
        raise DataError(f"Histories name items from {item.min()} to {item.max()}; the model scores 0 to {n_items - 1}.")
    own = np.asarray(scores[user, item], dtype=np.float64)
    if kind in ("log-odds", "self-score"):
        return own
    is_seen = np.zeros(scores.shape, dtype=bool)
    is_seen[user, item] = True
    n_unseen = n_items - is_seen.sum(1)
    if (n_unseen == 0).any():
        raise DataError(
            f"{int((n_unseen == 0).sum())} users have every item in their history. Leave these users out: there is "
            "nothing to compare with."
        )
    if kind == "bpr-margin":
        return np.asarray(own - (np.where(is_seen, 0, scores).sum(1, dtype=np.float64) / n_unseen)[user])
    unseen_scores = _sort_rows(np.where(is_seen, scores.dtype.type(np.inf), scores), resolve_device(device))
    n_lower = _count_below(unseen_scores, own, user, ties=False)
    n_lower_or_tied = _count_below(unseen_scores, own, user, ties=True)
    return np.asarray((n_lower + 0.5 * (n_lower_or_tied - n_lower) + 0.5) / (n_unseen[user] + 1))


def _sort_rows(values: FloatArray, device: torch.device) -> torch.Tensor:
    # On a CPU NumPy sorts ten times as fast as torch, which also returns the order.
    if device.type == "cpu":
        return torch.from_numpy(np.sort(values, axis=1))
    return torch.from_numpy(values).to(device).sort(1).values


def _count_below(sorted_rows: torch.Tensor, value: FloatArray, user: IntArray, *, ties: bool) -> FloatArray:
    """Count the numbers of the user's sorted row that are below each value.

    With `ties`, numbers that equal the value count too.
    """
    n_rows = len(sorted_rows)
    lengths = np.bincount(user, minlength=n_rows)
    place = np.arange(len(user)) - (np.cumsum(lengths) - lengths)[user]
    counts = np.empty(len(user))
    # Rows of one chunk are padded to the longest history in it, so chunks hold histories of similar length.
    chunk_of_row = np.empty(n_rows, dtype=np.int64)
    chunk_of_row[np.argsort(lengths, kind="stable")] = np.arange(n_rows) * N_CHUNKS // n_rows
    for chunk in range(N_CHUNKS):
        rows, pairs = np.flatnonzero(chunk_of_row == chunk), np.flatnonzero(chunk_of_row[user] == chunk)
        if not len(pairs):
            continue
        row, column = np.searchsorted(rows, user[pairs]), place[pairs]
        queries = torch.zeros((len(rows), int(column.max()) + 1), dtype=sorted_rows.dtype)
        queries[row, column] = torch.from_numpy(value[pairs]).to(sorted_rows.dtype)
        below = torch.searchsorted(sorted_rows[rows], queries.to(sorted_rows.device), right=ties)
        counts[pairs] = below.cpu().numpy()[row, column]
    return counts
