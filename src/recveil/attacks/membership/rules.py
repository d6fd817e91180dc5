"""Rules that look at one number and learn only its direction.

They are the baseline of every attack.

Where a platform serves members and non-members by different rules (members from the model, non-members from the popular
items; seen items omitted for one class and not for the other), one of these rules separates the classes without any
leak of the training data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from sklearn.metrics import roc_auc_score

from recveil.attacks.membership.difference_vectors import flatten_histories
from recveil.core.errors import UsageError
from recveil.core.types import BoolArray, FloatArray, IntArray, Shadow, Watched

__all__ = ["RULES", "count_items", "learn_rule_directions", "score_rules"]


def has_overlap(watched: Watched) -> FloatArray:
    """Return 1 for users whose list holds an item of their history, else 0."""
    return np.asarray(count_overlap(watched) > 0, dtype=np.float64)


def count_overlap(watched: Watched) -> FloatArray:
    """Count the listed items that are in the user's history."""
    return np.asarray(_is_seen(watched).sum(1), dtype=np.float64)


def measure_popular_share(watched: Watched) -> FloatArray:
    """Measure the share of each list that belongs to the popular list.

    Items of the history that are not listed are taken out of the popular list first.

    It is 1 where the list is exactly that. Popularity is counted on the histories that are seen.
    """
    n, k = watched.lists.shape
    width = _count_item_numbers(watched)
    rank = np.empty(width, dtype=np.int64)
    rank[np.argsort(-count_items(watched, width), kind="stable")] = np.arange(width)
    omitted = _find_seen_unlisted(watched, width)
    omitted_ranks = np.sort(omitted // width * width + rank[omitted % width])  # by user and rank
    is_listed = watched.lists >= 0
    listed_rank = np.where(is_listed, rank[watched.lists], 0)
    row = np.arange(n)[:, None] * width
    n_omitted_before = np.searchsorted(omitted_ranks, row + listed_rank) - np.searchsorted(omitted_ranks, row)
    is_popular = is_listed & (listed_rank - n_omitted_before < k)
    return np.asarray(is_popular.sum(1) / np.maximum(is_listed.sum(1), 1), dtype=np.float64)


def average_popularity(watched: Watched) -> FloatArray:
    """Average over each list the share of users who have the item in their history."""
    shares = count_items(watched, _count_item_numbers(watched)) / max(1, len(watched.histories))
    is_listed = watched.lists >= 0
    return np.asarray(np.where(is_listed, shares[watched.lists], 0).sum(1) / np.maximum(is_listed.sum(1), 1))


def count_history(watched: Watched) -> FloatArray:
    """Count the items of each history."""
    return np.fromiter(map(len, watched.histories), dtype=np.float64, count=len(watched.histories))


RULES: Mapping[str, Callable[[Watched], FloatArray]] = {
    "any-overlap": has_overlap,
    "overlap": count_overlap,
    "popular-list": measure_popular_share,
    "list-popularity": average_popularity,
    "history-length": count_history,
}
"""The number that each rule looks at; whether more or less of it indicates a member is learned on shadow users."""


def learn_rule_directions(shadows: Sequence[Shadow]) -> dict[str, float]:
    """Learn the direction of each rule on the shadow users.

    It is 1 where members have the larger numbers, else -1.
    """
    if not shadows:
        raise UsageError("Rules learn their direction from shadow users, and none were given.")
    member = np.concatenate([shadow.member for shadow in shadows])
    areas = {
        name: float(roc_auc_score(member, np.concatenate([rule(shadow.watched) for shadow in shadows])))
        for name, rule in RULES.items()
    }
    return {name: 1.0 if area >= 0.5 else -1.0 for name, area in areas.items()}


def score_rules(watched: Watched, directions: Mapping[str, float]) -> dict[str, FloatArray]:
    """Score each user by every rule; the higher, the more likely a member."""
    return {name: direction * RULES[name](watched) for name, direction in directions.items()}


def count_items(watched: Watched, width: int) -> IntArray:
    """Count how often each of `width` items occurs in the histories."""
    _, item = flatten_histories(watched.histories)
    return np.bincount(item[item >= 0], minlength=width).astype(np.int64)


def _count_item_numbers(watched: Watched) -> int:
    """Return one more than the largest item number of histories and lists."""
    _, item = flatten_histories(watched.histories)
    return int(max(item.max(initial=0), watched.lists.max(initial=0))) + 1


def _is_seen(watched: Watched) -> BoolArray:
    """Mark the places of each list that hold an item of the user's history."""
    width = _count_item_numbers(watched)
    owner, item = flatten_histories(watched.histories)
    listed = np.arange(len(watched.lists))[:, None] * width + watched.lists
    seen: BoolArray = np.isin(listed, owner * width + item) & (watched.lists >= 0)
    return seen


def _find_seen_unlisted(watched: Watched, width: int) -> IntArray:
    """Find items of histories that are not listed, as user * width + item."""
    owner, item = flatten_histories(watched.histories)
    listed = np.arange(len(watched.lists))[:, None] * width + watched.lists
    return np.setdiff1d(owner * width + item, listed[watched.lists >= 0])
