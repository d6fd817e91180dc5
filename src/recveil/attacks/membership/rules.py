"""Rules that look at one thing and learn nothing but its direction: what any cleverer attack must beat.

Where a platform serves members and others by different rules (members from the model, others from the charts; own items
left out for one class and not for the other), one of these separates them without any leak of the training data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from recveil.attacks.membership.difference_vectors import flatten_histories
from recveil.core.errors import UsageError
from recveil.core.types import FloatArray, IntArray, Shadow, Watched

__all__ = ["RULES", "Rules", "count_items", "count_overlap"]


def has_overlap(watched: Watched) -> FloatArray:
    """Whether any listed item was touched before."""
    return np.asarray(count_overlap(watched) > 0, dtype=np.float64)


def count_overlap(watched: Watched) -> FloatArray:
    """How many of the listed items the user had touched."""
    return np.asarray(_is_seen(watched).sum(1), dtype=np.float64)


def measure_popular_share(watched: Watched) -> FloatArray:
    """The share of the list that is the popular list: the most touched items, less what the user has and is not shown.

    It is 1 where the list is exactly that. Popularity is counted on the histories in sight.
    """
    n, k = watched.lists.shape
    width = _count_item_numbers(watched)
    rank = np.empty(width, dtype=np.int64)
    rank[np.argsort(-count_items(watched, width), kind="stable")] = np.arange(width)
    hidden = _find_seen_unlisted(watched, width)
    before = np.sort(hidden // width * width + rank[hidden % width])  # by user and rank
    listed = watched.lists >= 0
    place = np.where(listed, rank[watched.lists], 0)
    row = np.arange(n)[:, None] * width
    passed = np.searchsorted(before, row + place) - np.searchsorted(before, row)
    popular = listed & (place - passed < k)
    return np.asarray(popular.sum(1) / np.maximum(listed.sum(1), 1), dtype=np.float64)


def average_popularity(watched: Watched) -> FloatArray:
    """How many of the users in sight touched the listed items: a share, in the mean over the list."""
    counts = count_items(watched, _count_item_numbers(watched)) / max(1, len(watched.histories))
    listed = watched.lists >= 0
    return np.asarray(np.where(listed, counts[watched.lists], 0).sum(1) / np.maximum(listed.sum(1), 1))


def count_history(watched: Watched) -> FloatArray:
    """How many items the user touched."""
    return np.fromiter(map(len, watched.histories), dtype=np.float64, count=len(watched.histories))


RULES: Mapping[str, Callable[[Watched], FloatArray]] = {
    "any-overlap": has_overlap,
    "overlap": count_overlap,
    "popular-list": measure_popular_share,
    "list-popularity": average_popularity,
    "history-length": count_history,
}
"""What each rule looks at; whether more or less of it speaks for a member is learned on shadow users."""


@dataclass
class Rules:
    """All rules as one attack: it speaks with the voice of the one that does best on the shadow users."""

    direction_: dict[str, float] = field(init=False, repr=False, compare=False)
    best_: str = field(init=False, repr=False, compare=False)

    def fit(self, shadows: Sequence[Shadow], *, reference: Watched | None = None, rng: np.random.Generator) -> Self:
        """Learn on shadow users which way each rule points; `reference` and `rng` are not used."""
        if not shadows:
            raise UsageError("Rules learn their direction from shadow users, and none were given.")
        member = np.concatenate([s.member for s in shadows])
        areas = {
            name: float(roc_auc_score(member, np.concatenate([rule(s.watched) for s in shadows])))
            for name, rule in RULES.items()
        }
        self.direction_ = {name: 1.0 if area >= 0.5 else -1.0 for name, area in areas.items()}
        self.best_ = max(areas, key=lambda name: abs(areas[name] - 0.5))
        return self

    def each(self, target: Watched) -> dict[str, FloatArray]:
        """What every rule says of each user, the higher the more likely a member."""
        return {name: self.direction_[name] * rule(target) for name, rule in RULES.items()}

    def score(self, target: Watched) -> FloatArray:
        """What the rule says that was best on shadow users."""
        return self.direction_[self.best_] * RULES[self.best_](target)


def count_items(watched: Watched, width: int) -> IntArray:
    """How many times each of `width` items was touched by the users in sight."""
    _, item = flatten_histories(watched.histories)
    return np.bincount(item[item >= 0], minlength=width).astype(np.int64)


def _count_item_numbers(watched: Watched) -> int:
    """One more than the largest item number in sight."""
    _, item = flatten_histories(watched.histories)
    return int(max(item.max(initial=0), watched.lists.max(initial=0))) + 1


def _is_seen(watched: Watched) -> NDArray[np.bool_]:
    """Whether the user had touched each place of the list."""
    width = _count_item_numbers(watched)
    owner, item = flatten_histories(watched.histories)
    listed = np.arange(len(watched.lists))[:, None] * width + watched.lists
    touched: NDArray[np.bool_] = np.isin(listed, owner * width + item) & (watched.lists >= 0)
    return touched


def _find_seen_unlisted(watched: Watched, width: int) -> IntArray:
    """Pairs of user and item as user * width + item."""
    owner, item = flatten_histories(watched.histories)
    listed = np.arange(len(watched.lists))[:, None] * width + watched.lists
    return np.setdiff1d(owner * width + item, listed[watched.lists >= 0])
