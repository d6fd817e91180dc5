"""Ranking quality on held-out items: the whole catalog is ranked, seen items are excluded, ties count in expectation.

Items tied with a held-out item are as likely to be ranked before it as after it: every metric is the exact expectation
over that order. A score that is not a number counts as better than any other, so a broken model ranks last.

    seen = collect_seen_items(split.train, split.valid)  # for the test item, the validation item is history too
    ranks = rank(model.score, split.test, seen)
    estimate_mean(ndcg(ranks, 10))                       # an Estimate over users
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from scipy import sparse, stats

from recveil.core.errors import DataError, UsageError
from recveil.core.types import Attribute, Dataset, Estimate, FloatArray, IntArray, Split

__all__ = [
    "Ranks",
    "estimate_by_class",
    "estimate_difference",
    "make_dot_scorer",
    "evaluate",
    "hit_rate",
    "count_known_as_misses",
    "compute_measures",
    "estimate_mean",
    "ndcg",
    "precision",
    "rank",
    "recall",
    "collect_seen_items",
]

ScoreFunction = Callable[[Any], Any]
"""Users (int64 ids) in, (len(users), n_items) scores out; NumPy or torch."""


@dataclass(frozen=True, eq=False)
class Ranks:
    """Ranks of held-out items among the items that their users had not seen.

    Attributes:
        users: users who have held-out items.
        owner: pair p of a user and a held-out item belongs to user `users[owner[p]]`.
        better: number of items ranked before the held-out item of each pair.
        ties: number of other items with the same score.
    """

    users: IntArray
    owner: IntArray
    better: IntArray
    ties: IntArray


def collect_seen_items(*parts: Dataset) -> sparse.csr_array:
    """Collect the seen items of each user as a sparse user-by-item matrix.

    An item is seen if it occurs in any of the parts.
    """
    user = np.concatenate([p.user for p in parts])
    item = np.concatenate([p.item for p in parts])
    shape = (parts[0].n_users, parts[0].n_items)
    matrix = sparse.csr_array((np.ones(len(user), dtype=np.int32), (user, item)), shape=shape)
    matrix.sum_duplicates()  # one entry per pair, columns sorted
    return matrix


def make_dot_scorer(
    user_vectors: FloatArray, item_vectors: FloatArray, *, device: str | torch.device = "cpu"
) -> ScoreFunction:
    """Make the dot-product scoring function of two tables, for `rank`.

    Both tables stay on the device, which makes it faster than a function that returns NumPy arrays.
    """
    left = torch.as_tensor(np.asarray(user_vectors, dtype=np.float32), device=device)
    right = torch.as_tensor(np.asarray(item_vectors, dtype=np.float32), device=device).T

    def score(users: Any) -> torch.Tensor:
        return left[torch.as_tensor(users, device=left.device)] @ right

    return score


def rank(score: ScoreFunction, held: Dataset, seen: sparse.csr_array, *, block: int | None = None) -> Ranks:
    """Rank each held-out item of each user among all items the user had not seen.

    A held-out item that the user had seen before is still ranked; only the user's other seen items are excluded.

    Args:
        score: scoring function of the model.
        held: held-out interactions.
        seen: user-by-item matrix of the items to exclude.
        block: number of scores held in memory at a time, whatever the size of the catalog.

    Returns:
        The ranks of all pairs of a user and a held-out item, by user.

    Raises:
        DataError: the scoring function returned an array of another shape.
    """
    order = np.argsort(held.user, kind="stable")
    user, item = held.user[order], held.item[order]
    users, owner = np.unique(user, return_inverse=True)
    better, ties = np.zeros(len(user), np.int64), np.zeros(len(user), np.int64)
    start = torch.as_tensor(seen.indptr.astype(np.int64))
    column = torch.as_tensor(seen.indices.astype(np.int64))
    for rows in _cut_blocks(len(user), held.n_items, block):
        block_users, row = np.unique(user[rows], return_inverse=True)
        scores = torch.as_tensor(score(block_users))
        if tuple(scores.shape) != (len(block_users), held.n_items):
            raise DataError(
                f"The scoring function returned an array of shape {tuple(scores.shape)} for {len(block_users)} users "
                f"and {held.n_items} items. It must return (users, items)."
            )
        if len(block_users) < len(row):  # several held-out items of one user
            scores = scores[torch.as_tensor(row, device=scores.device)]
        ids, target = torch.as_tensor(user[rows]), torch.as_tensor(item[rows])
        above, beside = _count_better_and_tied(
            scores, target.to(scores.device), *_collect_history(ids, start, column, scores.device)
        )
        better[rows], ties[rows] = above.cpu().numpy(), beside.cpu().numpy()
    return Ranks(users, owner.astype(np.int64), better, ties)


def _cut_blocks(n: int, n_items: int, block: int | None) -> Iterator[slice]:
    # Blocks that stay in the processor's cache are several times faster than large ones, down to some 64 rows.
    rows = max(1, block // n_items) if block else max(64, 2**18 // max(n_items, 1))
    return (slice(at, min(at + rows, n)) for at in range(0, n, rows))


def _collect_history(
    users: torch.Tensor, start: torch.Tensor, column: torch.Tensor, device: torch.device
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the row within the block and the item of every seen item of these users."""
    first, length = start[users], start[users + 1] - start[users]
    row = torch.repeat_interleave(torch.arange(len(users)), length)
    within = torch.arange(len(row)) - (torch.cumsum(length, 0) - length)[row]
    return row.to(device), column[first[row] + within].to(device)


def _count_better_and_tied(
    scores: torch.Tensor, target: torch.Tensor, row: torch.Tensor, column: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Count the unseen items ranked before the target of each row, and the tied ones."""
    own = scores.gather(1, target[:, None])
    n = scores.shape[1]
    # Comparisons written as float32 sum much faster than booleans do; exact below 2**24 items.
    kind = torch.float32 if n < 2**24 else torch.float64
    flags = torch.empty(scores.shape, dtype=kind, device=scores.device)
    worse = torch.lt(scores, own, out=flags).sum(1).long()
    equal = torch.eq(scores, own, out=flags).sum(1).long()
    other = column != target[row]
    row, past = row[other], scores[row[other], column[other]]
    zeros = torch.zeros_like(worse)
    past_worse = zeros.index_add(0, row, (past < own[row, 0]).long())
    past_equal = zeros.index_add(0, row, (past == own[row, 0]).long())
    past_all = zeros.index_add(0, row, torch.ones_like(row))
    # Items that are neither worse nor equal are better; so is a score that is not a number.
    better = (n - worse - equal) - (past_all - past_worse - past_equal)
    return better, (equal - 1 - past_equal).clamp(min=0)


def _compute_hits(ranks: Ranks, k: int) -> FloatArray:
    if k < 1:
        raise UsageError(f"k is {k}. It must be at least 1.")
    chance = (k - ranks.better) / (ranks.ties + 1.0)
    return np.asarray(np.clip(chance, 0.0, 1.0))


def _sum_by_user(ranks: Ranks, values: FloatArray) -> FloatArray:
    return np.asarray(np.bincount(ranks.owner, weights=values, minlength=len(ranks.users)), dtype=np.float64)


def _count_held_out(ranks: Ranks) -> IntArray:
    return np.bincount(ranks.owner, minlength=len(ranks.users))


def count_known_as_misses(ranks: Ranks, held: Dataset, seen: sparse.csr_array) -> Ranks:
    """Move held-out items that the platform takes for seen behind all others."""
    order = np.argsort(held.user, kind="stable")  # the order of the pairs in `ranks`
    known = np.asarray(seen[held.user[order], held.item[order]]).ravel() > 0
    return replace(ranks, better=np.where(known, held.n_items, ranks.better))


def hit_rate(ranks: Ranks, k: int) -> FloatArray:
    """Compute for each user the probability of a hit among the first k.

    A hit is any held-out item. The probability never falls as k grows.
    """
    with np.errstate(divide="ignore"):
        none = _sum_by_user(ranks, np.log1p(-_compute_hits(ranks, k)))
    return np.asarray(-np.expm1(none))


def recall(ranks: Ranks, k: int) -> FloatArray:
    """Compute for each user the share of held-out items among the first k."""
    return _sum_by_user(ranks, _compute_hits(ranks, k)) / _count_held_out(ranks)


def precision(ranks: Ranks, k: int) -> FloatArray:
    """Compute for each user the share of the first k that are held-out items."""
    return _sum_by_user(ranks, _compute_hits(ranks, k)) / k


def ndcg(ranks: Ranks, k: int) -> FloatArray:
    """Compute for each user the discounted gain of the first k over the best one.

    A held-out item at a position gains 1 / log2(1 + position).
    """
    if k < 1:
        raise UsageError(f"k is {k}. It must be at least 1.")
    total = np.concatenate([[0.0], np.cumsum(1.0 / np.log2(np.arange(k) + 2.0))])  # total[m]: gain of positions 1..m
    last = np.minimum(ranks.better + ranks.ties + 1, k)
    gain = (total[last] - total[np.minimum(ranks.better, k)]) / (ranks.ties + 1.0)
    return np.asarray(_sum_by_user(ranks, gain) / total[np.minimum(_count_held_out(ranks), k)])


def estimate_mean(values: FloatArray, *, bounded: bool = True) -> Estimate:
    """Estimate the mean over users with its 95 % t interval.

    `bounded` says that each value lies between 0 and 1. Where all users have the same bounded value, such as no hit at
    all, the t interval would be a point, and Wilson's interval is used.
    """
    n = len(values)
    value = float(np.mean(values)) if n else float("nan")
    if n < 2:
        low, high = (0.0, 1.0) if bounded else (float("nan"), float("nan"))
        return Estimate(value, low, high, n)
    spread = float(np.std(values, ddof=1))
    if bounded and spread == 0.0:
        return Estimate(value, *_compute_wilson_interval(value, n), n)
    half = float(stats.t.ppf(0.975, n - 1)) * spread / n**0.5
    low, high = value - half, value + half
    return Estimate(value, max(0.0, low), min(1.0, high), n) if bounded else Estimate(value, low, high, n)


def _compute_wilson_interval(p: float, n: int) -> tuple[float, float]:
    z2 = float(stats.norm.ppf(0.975)) ** 2
    middle = (p + z2 / (2 * n)) / (1 + z2 / n)
    half = (z2 * (p * (1 - p) / n + z2 / (4 * n * n))) ** 0.5 / (1 + z2 / n)
    return min(p, max(0.0, middle - half)), max(p, min(1.0, middle + half))


def estimate_difference(after: FloatArray, before: FloatArray) -> Estimate:
    """Estimate the mean change of the same users from `before` to `after`, paired."""
    if after.shape != before.shape:
        raise UsageError(
            f"after has {len(after)} values and before {len(before)}. A paired difference needs the same users in both."
        )
    return estimate_mean(after - before, bounded=False)


def estimate_by_class(values: FloatArray, users: IntArray, attribute: Attribute) -> dict[str, Estimate]:
    """Estimate the mean of each class of an attribute; undisclosed users are left out.

    Args:
        values: value of each user.
        users: users that the values belong to.
        attribute: attribute of all users.

    Returns:
        An estimate for each label.
    """
    codes = attribute.codes[users]
    return {label: estimate_mean(values[codes == code]) for code, label in enumerate(attribute.labels)}


def evaluate(
    score: ScoreFunction, split: Split, *, part: str = "test", ks: Sequence[int] = (5, 10, 15, 20)
) -> dict[str, Estimate]:
    """Compute HR, NDCG, recall and precision at each k, as `hr@10`, `ndcg@10`, ...

    Training items are excluded from the ranking, and for the test part validation items too.

    Args:
        score: scoring function of the model.
        split: the data set in its three parts.
        part: "test" or "valid".
        ks: list lengths.

    Returns:
        An estimate over users for each metric and k.

    Raises:
        UsageError: there is no such part.
    """
    if part not in ("test", "valid"):
        raise UsageError(f"part is '{part}'. Use 'test' or 'valid'.")
    history = [split.train, split.valid] if part == "test" else [split.train]
    return compute_measures(
        rank(score, split.test if part == "test" else split.valid, collect_seen_items(*history)), ks=ks
    )


def compute_measures(ranks: Ranks, *, ks: Sequence[int] = (5, 10, 15, 20)) -> dict[str, Estimate]:
    """Compute HR, NDCG, recall and precision at each k from ranks."""
    measures = {"hit_rate": hit_rate, "ndcg": ndcg, "recall": recall, "precision": precision}
    return {f"{name}@{k}": estimate_mean(measure(ranks, k)) for name, measure in measures.items() for k in ks}
