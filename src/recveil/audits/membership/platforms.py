"""A platform: a recommender trained on members, and the lists it serves.

The newest item of every user, member or not, is held out: it is not trained on, not folded in and not visible to the
outsider. The held-out items of members choose the epoch of the training; those of non-members measure what their lists
are worth. The platform knows the items in the histories of its members, and lists no other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from recveil.attacks.membership.difference_vectors import flatten_histories
from recveil.audits.membership.histories import KnownHistories, split_histories
from recveil.audits.membership.serving import ServingPolicy
from recveil.core.device import use_one_thread
from recveil.core.errors import UsageError
from recveil.core.membership_parts import ServedHits
from recveil.core.privacy_parts import PrivacyGuarantee
from recveil.core.protocols import (
    FoldInRecommender,
    ListDefense,
    PrivateRecommender,
    Recommender,
    SimulatedRecommender,
)
from recveil.core.types import BoolArray, Dataset, Estimate, FloatArray, IntArray, ReferenceSignals, Split, Watched
from recveil.data.member_split import MemberPart
from recveil.metrics.ranking import collect_seen_items, estimate_difference, estimate_mean
from recveil.models.scoring import keep_released_items, top_k

__all__ = [
    "ServedPlatform",
    "ServingPolicy",
    "TrainedPlatform",
    "compare_nonmember_hits",
    "defend_lists",
    "factor_items",
    "measure_hit_rates",
    "measure_overall_hit_rate",
    "train_and_serve",
    "train_platform",
]

ScoreUsers = Callable[[IntArray], FloatArray]
"""A function from users to a score for every item of the catalog."""


@dataclass(frozen=True, eq=False)
class ServedPlatform:
    """What is seen of the users of a platform, and what the platform alone knows.

    `popularity` counts each item among the members, `held_out[u]` is the held-out item of user u, -1 for none.
    """

    watched: Watched
    member: BoolArray
    popularity: FloatArray
    held_out: IntArray
    policy: ServingPolicy


@dataclass(frozen=True, eq=False)
class TrainedPlatform:
    """A model trained on the members of a part, before lists are made.

    `score_members` and `score_nonmembers` score the catalog (the items in the histories of members) for users numbered
    within each class.
    """

    history: Dataset
    member: BoolArray
    popularity: FloatArray
    held_out: IntArray
    policy: ServingPolicy
    model: Recommender
    score_members: ScoreUsers
    score_nonmembers: ScoreUsers

    @property
    def is_known(self) -> BoolArray:
        """Mask of the items of the catalog; of a private model, the items that it releases."""
        catalog = np.flatnonzero(self.popularity)
        items = catalog[self.model.released_items_] if isinstance(self.model, PrivateRecommender) else catalog
        return np.isin(np.arange(len(self.popularity)), items)

    @property
    def guarantee(self) -> PrivacyGuarantee | None:
        """Guarantee of what is served; None where the model has none or the rule of serving tells members."""
        model = self.model
        return model.guarantee_ if isinstance(model, PrivateRecommender) and self.policy.is_same_for_all else None

    def serve_lists(
        self, item_vectors: FloatArray | None, reference_signals: ReferenceSignals | None = None
    ) -> ServedPlatform:
        """Make the lists of all users; the arguments are what an outsider knows besides."""
        catalog = np.flatnonzero(self.popularity)
        hidden = _find_hidden_items(self.history, self.member, self.policy)[:, catalog]
        lists = np.full((self.history.n_users, self.policy.k), -1, dtype=np.int64)
        for score, in_class in ((self.score_members, self.member), (self.score_nonmembers, ~self.member)):
            rows = np.flatnonzero(in_class)
            lists[rows] = self._list_items(score, np.arange(len(rows)), hidden[rows])
        lists = np.where(lists >= 0, catalog[lists], -1)
        watched = Watched(split_histories(self.history), lists, item_vectors, reference_signals)
        return ServedPlatform(watched, self.member, self.popularity, self.held_out, self.policy)

    def _list_items(self, score: ScoreUsers, users: IntArray, hidden: sparse.csr_array) -> IntArray:
        lists = keep_released_items(top_k(score, users, self.policy.k, hidden), self.model)
        # A private model may release few items. Who has seen all of them is shown them again, member or not.
        without = np.flatnonzero((lists < 0).all(1))
        if len(without) and isinstance(self.model, PrivateRecommender):
            nothing = sparse.csr_array(hidden.shape, dtype=hidden.dtype)
            lists[without] = keep_released_items(top_k(score, users[without], self.policy.k, nothing), self.model)
        return lists

    def score(self, users: IntArray) -> FloatArray:
        """Score every item for these users; items outside the catalog score NaN."""
        number_in_class = np.where(self.member, np.cumsum(self.member), np.cumsum(~self.member)) - 1
        is_member, catalog = self.member[users], np.flatnonzero(self.popularity)
        rows = [np.flatnonzero(in_class) for in_class in (is_member, ~is_member)]
        scorers = (self.score_members, self.score_nonmembers)
        values = [score(number_in_class[users[part]]) for score, part in zip(scorers, rows, strict=True)]
        # Single precision stays single: reference attacks sort all scores of all users.
        scores = np.full((len(users), len(self.popularity)), np.nan, dtype=np.result_type(*values))
        for part, value in zip(rows, values, strict=True):
            scores[np.ix_(part, catalog)] = value
        return scores


@use_one_thread()
def factor_items(part: Dataset, model: Recommender, *, rng: np.random.Generator) -> FloatArray:
    """Return the item vectors of a model trained on all interactions of a part.

    Args:
        part: interactions to factor.
        model: the untrained model (the papers: 100 factors).
        rng: source of randomness.
    """
    empty = part.take(np.empty(0, dtype=np.int64))
    return np.asarray(model.fit(Split(part, empty, empty), rng=rng).item_vectors_)


@use_one_thread()
def train_platform(
    part: MemberPart,
    model: Recommender,
    policy: ServingPolicy,
    *,
    rng: np.random.Generator,
    known_items: BoolArray | None = None,
    known: KnownHistories | None = None,
) -> TrainedPlatform:
    """Train a model on the members of a part.

    Args:
        part: users of a shadow or of a target, and which of them are members.
        model: the untrained model.
        policy: how lists are to be served.
        rng: source of randomness of the training and of the fold-in.
        known_items: mask of the items that a private model is to release, by an attacker who simulates the target.
        known: the histories of the part, where other platforms of the same users have them already.

    Raises:
        UsageError: lists are longer than the catalog, or the model cannot fold in users and the policy needs it.
        DataError: a user has no interactions.
    """
    known = KnownHistories.hold_out_newest(part.data) if known is None else known
    history, held_out = known.history, known.held_out
    members, nonmembers = np.flatnonzero(part.member), np.flatnonzero(~part.member)
    member_items = MemberPart(history, part.member).members.item
    popularity = np.bincount(member_items, minlength=history.n_items).astype(np.float64)
    catalog = np.flatnonzero(popularity)
    if policy.k > len(catalog):
        raise UsageError(
            f"Lists of {policy.k} items were asked for, but the histories of members hold {len(catalog)} items. "
            f"Use a `k` of at most {len(catalog)}."
        )
    if known_items is not None and isinstance(model, SimulatedRecommender):
        model = model.simulate_release(np.flatnonzero(known_items[catalog]))
    train_rng, fold_rng = rng.spawn(2)
    model.fit(_build_member_split(history, held_out, members, catalog), rng=train_rng)
    score_members: ScoreUsers = model.score
    score_nonmembers = _score_by_popularity(popularity[catalog])

    def fold_in(users: IntArray, rng: np.random.Generator) -> ScoreUsers:
        by_popularity = _score_by_popularity(popularity[catalog])
        return _score_by_fold_in(model, [known.histories[user] for user in users], catalog, by_popularity, rng=rng)

    if policy.folds_in_nonmembers:
        score_nonmembers = fold_in(nonmembers, fold_rng)
    if policy.folds_in_members:
        score_members = fold_in(members, fold_rng.spawn(1)[0])
    return TrainedPlatform(history, part.member, popularity, held_out, policy, model, score_members, score_nonmembers)


def train_and_serve(
    part: MemberPart,
    model: Recommender,
    policy: ServingPolicy,
    item_vectors: FloatArray | None,
    *,
    rng: np.random.Generator,
) -> ServedPlatform:
    """Train a model on the members of a part and serve all users.

    Args:
        part: users of a shadow or of a target, and which of them are members.
        model: the untrained model.
        policy: how lists are served.
        item_vectors: what an outsider knows of the items.
        rng: source of randomness.
    """
    return train_platform(part, model, policy, rng=rng).serve_lists(item_vectors)


def defend_lists(platform: ServedPlatform, defense: ListDefense, *, rng: np.random.Generator) -> ServedPlatform:
    """Return the same platform with its lists defended.

    Args:
        platform: the undefended platform.
        defense: the defense.
        rng: source of randomness.
    """
    owner, item = flatten_histories(platform.watched.histories)
    shape = (len(platform.member), len(platform.popularity))
    seen = sparse.csr_array((np.ones(len(item)), (owner, item)), shape=shape)
    hidden = seen if platform.policy.hides_seen_items(member=False) else None
    lists = defense(platform.watched.lists, platform.member, platform.popularity, rng=rng, seen=hidden)
    return replace(platform, watched=replace(platform.watched, lists=lists))


def measure_hit_rates(platform: ServedPlatform) -> ServedHits:
    """Measure how often the held-out item is in the list, for each class."""
    hits, has_held_out = _find_hits(platform), platform.held_out >= 0
    return ServedHits(
        members=estimate_mean(hits[has_held_out & platform.member]),
        non_members=estimate_mean(hits[has_held_out & ~platform.member]),
    )


def measure_overall_hit_rate(platform: ServedPlatform) -> Estimate:
    """Measure how often the held-out item is in the list, for all users."""
    return estimate_mean(_find_hits(platform)[platform.held_out >= 0])


def compare_nonmember_hits(before: ServedPlatform, after: ServedPlatform) -> Estimate:
    """Estimate the paired change of the non-members' hit rate; below zero is a loss."""
    users = (before.held_out >= 0) & ~before.member
    return estimate_difference(_find_hits(after)[users], _find_hits(before)[users])


def _find_hits(platform: ServedPlatform) -> FloatArray:
    return np.asarray((platform.watched.lists == platform.held_out[:, None]).any(1), dtype=np.float64)


def _build_member_split(history: Dataset, held_out: IntArray, members: IntArray, catalog: IntArray) -> Split:
    """Build the split that the model sees: members and the catalog, numbered from 0.

    Held-out items outside the catalog are left out of the validation, for the model cannot rank them.
    """
    valid_users = members[np.isin(held_out[members], catalog)]
    valid = replace(history, user=valid_users, item=held_out[valid_users], time=None)
    train = history.take(np.isin(history.user, members))
    test = valid.take(valid_users[:0])
    return Split(*(_renumber(part, members, catalog) for part in (train, valid, test)))


def _renumber(part: Dataset, members: IntArray, catalog: IntArray) -> Dataset:
    return replace(
        part,
        user=np.searchsorted(members, part.user),
        item=np.searchsorted(catalog, part.item),
        user_ids=part.user_ids[members],
        item_ids=part.item_ids[catalog],
        attributes={},
    )


def _find_hidden_items(history: Dataset, member: BoolArray, policy: ServingPolicy) -> sparse.csr_array:
    """Return the user-by-item matrix of items that must not be listed."""
    hides = np.array([policy.hides_seen_items(member=False), policy.hides_seen_items(member=True)])
    return collect_seen_items(history.take(hides[member.astype(np.int64)][history.user]))


def _score_by_popularity(popularity: FloatArray) -> ScoreUsers:
    """Return a scorer that gives all users the popularity of each item."""
    return lambda users: np.tile(popularity, (len(users), 1))


def _score_by_fold_in(
    model: Recommender,
    histories: Sequence[IntArray],
    catalog: IntArray,
    score_by_popularity: ScoreUsers,
    *,
    rng: np.random.Generator,
) -> ScoreUsers:
    """Return a scorer that folds in each history.

    Users without an item of the catalog get the popular items, by a private model those that it released.
    """
    if not isinstance(model, FoldInRecommender):
        raise UsageError(
            f"{type(model).__name__} cannot serve users it was not trained on. Serve the non-members by 'popular'."
        )
    owner, item = flatten_histories(histories)
    in_catalog = np.isin(item, catalog)
    counts = np.bincount(owner[in_catalog], minlength=len(histories))
    known_histories = np.split(np.searchsorted(catalog, item[in_catalog]), np.cumsum(counts)[:-1])
    is_folded = (counts > 0) | isinstance(model, PrivateRecommender)
    user_vectors = model.fold_in([known_histories[user] for user in np.flatnonzero(is_folded)], rng=rng)
    vector_row = np.cumsum(is_folded) - 1

    def score(users: IntArray) -> FloatArray:
        folded = is_folded[users]
        # The first argument gives only the number of users here: their vectors are passed.
        values = model.score(np.zeros(folded.sum(), dtype=np.int64), user_vectors[vector_row[users[folded]]])
        if folded.all():
            return values
        scores = score_by_popularity(users).astype(values.dtype)
        scores[folded] = values
        return scores

    return score
