"""A platform that is watched: a recommender trained on members, and the lists it serves to members and to others.

The newest item of every user, member or not, is held back from all of it: it is not trained on, not folded in and not
among what the outsider sees. Those of the members choose the pass of the training, those of the others tell what their
lists are worth. The platform knows the items that its members touched, and lists no other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from recveil.attacks.membership.difference_vectors import flatten_histories
from recveil.core.errors import DataError, UsageError, unknown_name
from recveil.core.protocols import ListDefense, Recommender
from recveil.core.types import Dataset, Estimate, FloatArray, IntArray, Shadow, Split, Watched
from recveil.data.member_split import Side
from recveil.metrics.ranking import difference, mean, seen_items
from recveil.models.scoring import top_k

__all__ = [
    "ServingPolicy",
    "ServedPlatform",
    "TrainedPlatform",
    "defend_lists",
    "factor_items",
    "train_and_serve",
    "train_platform",
    "measure_hit_rates",
    "compare_nonmember_hits",
]

NONMEMBER_SERVING = ("fold-in", "popular")
SEEN_ITEM_RULES = ("excluded", "kept", "paper")
MIN_ITEMS_TO_HOLD_OUT = 3
"""A user with fewer items than this keeps them all."""


ScoreFunction = Callable[[IntArray], FloatArray]
"""Users in, a score for every item of the catalog out."""


@dataclass(frozen=True)
class ServingPolicy:
    """What is served: `k` items, members' from the model, others' by `nonmembers`, `"fold-in"` or `"popular"`.

    `seen` says whether lists leave out what the user touched: `"excluded"` or `"kept"`, for both classes alike, or
    `"paper"`, where others' lists do and members' do not. The last is the flaw of published benchmarks, and is here so
    that it can be shown.
    """

    nonmembers: str = "fold-in"
    seen: str = "excluded"
    k: int = 100

    def __post_init__(self) -> None:
        if self.nonmembers not in NONMEMBER_SERVING:
            raise unknown_name("way to serve non-members", self.nonmembers, NONMEMBER_SERVING)
        if self.seen not in SEEN_ITEM_RULES:
            raise unknown_name("rule for seen items", self.seen, SEEN_ITEM_RULES)
        if self.k < 1:
            raise UsageError(f"k is {self.k}. A list needs at least one place.")

    def hides_seen_items(self, *, member: bool) -> bool:
        """Whether this class is not shown what it touched."""
        return self.seen == "excluded" or (self.seen == "paper" and not member)


@dataclass(frozen=True, eq=False)
class ServedPlatform:
    """One platform: what is seen of its users, and what it alone knows.

    `popularity` counts each item among the members, `held[u]` is the item held back of user u, -1 for none.
    """

    watched: Watched
    member: NDArray[np.bool_]
    popularity: FloatArray
    held_out: IntArray
    policy: ServingPolicy

    @property
    def shadow(self) -> Shadow:
        """As a world that the attacker made and knows all about."""
        return Shadow(self.watched, self.member)


@dataclass(frozen=True, eq=False)
class TrainedPlatform:
    """A model that was trained on the members of a side: whom it scores how, before anything is listed.

    `to_members` and `to_others` score the catalog, the items that members touched, for users counted within each class.
    """

    history: Dataset
    member: NDArray[np.bool_]
    popularity: FloatArray
    held_out: IntArray
    policy: ServingPolicy
    score_members: ScoreFunction
    score_nonmembers: ScoreFunction

    def serve_lists(self, item_vectors: FloatArray | None) -> ServedPlatform:
        """Lists for everybody."""
        catalog = np.flatnonzero(self.popularity)
        hidden = _find_hidden_items(self.history, self.member, self.policy)[:, catalog]
        lists = np.full((self.history.n_users, self.policy.k), -1, dtype=np.int64)
        for score, who in ((self.score_members, self.member), (self.score_nonmembers, ~self.member)):
            lists[who] = top_k(score, np.arange(who.sum()), self.policy.k, hidden[np.flatnonzero(who)])
        lists = np.where(lists >= 0, catalog[lists], -1)
        watched = Watched(_split_histories(self.history), lists, item_vectors)
        return ServedPlatform(watched, self.member, self.popularity, self.held_out, self.policy)

    def score(self, users: IntArray) -> FloatArray:
        """What these users' scores are for every item; what is not in the catalog has none, which is not a number."""
        place = np.where(self.member, np.cumsum(self.member), np.cumsum(~self.member)) - 1
        scores = np.full((len(users), len(self.popularity)), np.nan)
        for score, who in ((self.score_members, self.member[users]), (self.score_nonmembers, ~self.member[users])):
            rows = np.flatnonzero(who)
            scores[np.ix_(rows, np.flatnonzero(self.popularity))] = score(place[users[rows]])
        return scores


def factor_items(part: Dataset, model: Recommender, *, rng: np.random.Generator) -> FloatArray:
    """The item vectors of this model, trained on all of the item-vector part (the papers: d = 100)."""
    nothing = part.take(np.empty(0, dtype=np.int64))
    return np.asarray(model.fit(Split(part, nothing, nothing), rng=rng).item_vectors_)


def train_platform(
    side: Side, model: Recommender, policy: ServingPolicy, *, rng: np.random.Generator
) -> TrainedPlatform:
    """Train the model on the members of this side."""
    history, held = _hold_out_newest(side.data)
    members, others = np.flatnonzero(side.member), np.flatnonzero(~side.member)
    popularity = np.bincount(Side(history, side.member).members.item, minlength=history.n_items).astype(np.float64)
    catalog = np.flatnonzero(popularity)
    if policy.k > len(catalog):
        raise UsageError(
            f"Lists of {policy.k} items were asked for, but the members touched {len(catalog)} items in all. "
            f"Use k at most {len(catalog)}."
        )
    train_rng, fold_rng = rng.spawn(2)
    model.fit(_build_member_split(history, held, members, catalog), rng=train_rng)
    to_others = _score_by_popularity(popularity[catalog])
    if policy.nonmembers == "fold-in":
        histories = _split_histories(history)
        to_others = _score_by_fold_in(model, [histories[u] for u in others], catalog, to_others, rng=fold_rng)
    return TrainedPlatform(history, side.member, popularity, held, policy, model.score, to_others)


def train_and_serve(
    side: Side, model: Recommender, policy: ServingPolicy, item_vectors: FloatArray | None, *, rng: np.random.Generator
) -> ServedPlatform:
    """Train the model on the members of this side and serve everybody on it."""
    return train_platform(side, model, policy, rng=rng).serve_lists(item_vectors)


def defend_lists(served: ServedPlatform, defense: ListDefense, *, rng: np.random.Generator) -> ServedPlatform:
    """The same platform with its lists defended."""
    owner, item = flatten_histories(served.watched.histories)
    shape = (len(served.member), len(served.popularity))
    seen = sparse.csr_array((np.ones(len(item)), (owner, item)), shape=shape)
    own = seen if served.policy.hides_seen_items(member=False) else None
    lists = defense(served.watched.lists, served.member, served.popularity, rng=rng, seen=own)
    return replace(served, watched=replace(served.watched, lists=lists))


def measure_hit_rates(served: ServedPlatform) -> dict[str, Estimate]:
    """How often the item held back is in the list, of members and of others."""
    hit = _find_hits(served)
    known = served.held_out >= 0
    return {name: mean(hit[known & who]) for name, who in (("members", served.member), ("others", ~served.member))}


def compare_nonmember_hits(before: ServedPlatform, after: ServedPlatform) -> Estimate:
    """By how much the hit rate of the others changed, paired: below zero is a loss."""
    who = (before.held_out >= 0) & ~before.member
    return difference(_find_hits(after)[who], _find_hits(before)[who])


def _find_hits(served: ServedPlatform) -> FloatArray:
    return np.asarray((served.watched.lists == served.held_out[:, None]).any(1), dtype=np.float64)


def _build_member_split(history: Dataset, held: IntArray, members: IntArray, catalog: IntArray) -> Split:
    """As the model sees it: members and the items they touched, numbered from 0; it is judged by what it can know."""
    judged = members[np.isin(held[members], catalog)]
    newest = replace(history, user=judged, item=held[judged], time=None)
    train = history.take(np.isin(history.user, members))
    return Split(*(_renumber(part, members, catalog) for part in (train, newest, newest.take(judged[:0]))))


def _renumber(part: Dataset, members: IntArray, catalog: IntArray) -> Dataset:
    return replace(
        part,
        user=np.searchsorted(members, part.user),
        item=np.searchsorted(catalog, part.item),
        user_ids=part.user_ids[members],
        item_ids=part.item_ids[catalog],
        attributes={},
    )


def _find_hidden_items(history: Dataset, member: NDArray[np.bool_], policy: ServingPolicy) -> sparse.csr_array:
    """What each user must not be listed."""
    hides = np.array([policy.hides_seen_items(member=False), policy.hides_seen_items(member=True)])
    return seen_items(history.take(hides[member.astype(np.int64)][history.user]))


def _score_by_popularity(popularity: FloatArray) -> ScoreFunction:
    """The same scores for everybody: how popular each item is."""
    return lambda users: np.tile(popularity, (len(users), 1))


def _score_by_fold_in(
    model: Recommender,
    histories: Sequence[IntArray],
    catalog: IntArray,
    charts: ScoreFunction,
    *,
    rng: np.random.Generator,
) -> ScoreFunction:
    """Scores by folding in what the platform knows of each history; who touched nothing it knows gets the charts."""
    if not hasattr(model, "fold_in"):
        raise UsageError(
            f"{type(model).__name__} cannot serve users it was not trained on. Serve the others by 'popular'."
        )
    owner, item = flatten_histories(histories)
    known = np.isin(item, catalog)
    counts = np.bincount(owner[known], minlength=len(histories))
    parts = np.split(np.searchsorted(catalog, item[known]), np.cumsum(counts)[:-1])
    rows = model.fold_in([parts[u] for u in np.flatnonzero(counts)], rng=rng)
    place = np.cumsum(counts > 0) - 1

    def score(users: IntArray) -> FloatArray:
        scores = charts(users)
        some = counts[users] > 0
        # The first argument only says how many: the rows are given.
        scores[some] = model.score(np.zeros(some.sum(), dtype=np.int64), rows[place[users[some]]])
        return scores

    return score


def _hold_out_newest(data: Dataset) -> tuple[Dataset, IntArray]:
    """Everybody's history without the newest item, and that item; -1 for users who have too few."""
    order = np.lexsort((np.arange(len(data)) if data.time is None else data.time, data.user))
    size = np.bincount(data.user, minlength=data.n_users)
    if not size.all():
        raise DataError(
            f"{int((size == 0).sum())} of {data.n_users} users of '{data.name}' have no history. Leave these users out."
        )
    enough = size >= MIN_ITEMS_TO_HOLD_OUT
    newest = order[(np.cumsum(size) - 1)[enough]]
    held = np.full(data.n_users, -1, dtype=np.int64)
    held[enough] = data.item[newest]
    kept = np.ones(len(data), dtype=np.bool_)
    kept[newest] = False
    return data.take(order[kept[order]]), held


def _split_histories(data: Dataset) -> list[IntArray]:
    """What each user touched; the rows are in order of user and time."""
    return np.split(data.item, np.cumsum(np.bincount(data.user, minlength=data.n_users))[:-1])
