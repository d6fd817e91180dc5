"""Decoy omissions: lists leave out, beside seen items, what users of another class would have seen.

A list omits what its user has seen, and classes have seen different items: what is missing from the head of a ranking
tells the class even if the ranking itself does not. For every place of the ranking down to the end of the list, the
probability that its item was seen is estimated for each class. Users of a class that has seen it less often than
another omit it as well, at random, just as often as makes the probabilities equal. Only places that could enter a list
count, and only the difference between classes is paid for.

An attacker may hold the vectors too, and what a user has seen depends on the vector that she had before the cloak. So
where the vectors are known the probabilities are those of a user of each class with this same cloaked vector.

Guarantee: if the vectors are independent of the class (a cloaked table) and the probabilities are right, no item of the
head is omitted more often by one class than by another, whatever the vector. Limits: the probabilities are estimated;
dependence between the omissions of one user is not modelled; what vectors tell together with the item vectors, lists
tell as well, since how far a list reaches follows from them; a platform that draws new decoys for every list lets an
attacker who collects lists remove them: give `draw_pairs`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from recveil.core.errors import DataError
from recveil.core.option_types import Count, Share, check_fields
from recveil.core.traits import DefenseTraits, Range
from recveil.core.types import BoolArray, FloatArray, IntArray, ServedVectors
from recveil.defenses.lists.counterfactuals import HeadFeatures, compute_features
from recveil.defenses.lists.omission_model import OmissionModel, RankedPairs, fit_omission_model, mark_places

__all__ = ["Decoys", "DrawPairs"]

DrawPairs = Callable[[IntArray, IntArray], FloatArray]
"""Takes positions of users and of items; returns a number between 0 and 1 for each pair."""

METHODS = (
    DefenseTraits(
        "decoys",
        builder="Decoys",
        place="lists",
        undisclosed_users="get the decoys of an average user",
        search_space={"strength": Range(0.3, 1.0)},
    ),
)


@dataclass(frozen=True)
class Decoys:
    """Unseen items omitted from lists, so that what is missing tells no class.

    Args:
        strength: share of the difference between classes that decoys make up for.
        rounds: how often the probabilities are estimated; decoys lengthen the part of a ranking that matters.
    """

    strength: Share = 1.0
    rounds: Count = 3

    def __post_init__(self) -> None:
        check_fields(self)

    def __call__(
        self,
        head: IntArray,
        seen: sparse.csr_array,
        codes: IntArray,
        *,
        k: int,
        rng: np.random.Generator,
        draw_pairs: DrawPairs | None = None,
        vectors: ServedVectors | None = None,
    ) -> sparse.csr_array:
        """Return the items that the list of each user omits: all seen ones, and decoys.

        Args:
            head: (n, depth) first items of each user's ranking with nothing omitted, best first; -1 where it has ended.
            seen: user-by-item matrix of seen items.
            codes: (n, n_attributes) classes, -1 = undisclosed; several attributes are hidden as joint classes.
            k: length of the lists.
            rng: source of the decoys.
            draw_pairs: fixed draws, so that a user keeps her decoys from one release to the next; `rng` if None.
            vectors: what the rankings come from. Without it classes omit alike by place and item alone, and omissions
                tell an attacker who also holds the vectors.

        Raises:
            DataError: the tables are not of the same users.
        """
        if not len(head) == seen.shape[0] == len(codes):
            raise DataError(
                f"There are rankings of {len(head):,} users, seen items of {seen.shape[0]:,} and classes of "
                f"{len(codes):,}. Give the same users in all three."
            )
        cells = _join_codes(codes)
        n_classes = int(cells.max(initial=-1)) + 1
        if self.strength == 0 or n_classes < 2:
            return seen.astype(np.int32)
        is_seen = _look_up(seen, head)
        places = mark_places(head.shape[1])
        features = compute_features(vectors, cells, head, is_seen, k)
        model = OmissionModel.start(n_classes, int(places[-1]) + 1, seen.shape[1], features.count)
        draw_pairs = draw_pairs or (lambda users, items: rng.random(len(users)))
        omitted = is_seen
        for _ in range(self.rounds):
            pairs = _collect_pairs(head, is_seen, _reach(omitted, k), cells, places, features)
            model = fit_omission_model(pairs, model)
            omitted = self._add_decoys(model.draw(rng), head, is_seen, cells, features, k=k, draw_pairs=draw_pairs)
        return _join_omissions(seen, head, omitted)

    def _add_decoys(
        self,
        model: OmissionModel,
        head: IntArray,
        is_seen: BoolArray,
        cells: IntArray,
        features: HeadFeatures,
        *,
        k: int,
        draw_pairs: DrawPairs,
    ) -> BoolArray:
        """Omit items place by place until each list is full."""
        omitted, listed, places = is_seen.copy(), np.zeros(len(head), dtype=np.int64), mark_places(head.shape[1])
        classes = np.arange(len(model.slope))[:, None]
        shares = np.bincount(cells[cells >= 0]) / max(1, int((cells >= 0).sum()))
        for rank in range(head.shape[1]):
            users = np.flatnonzero((listed < k) & (head[:, rank] >= 0))
            if not len(users):
                break
            by_class = model.predict(
                int(places[rank]), head[users, rank], features.take(classes, users, np.array(rank))
            )
            own = np.where(cells[users] >= 0, by_class[cells[users], np.arange(len(users))], shares @ by_class)
            chance = self.strength * (by_class.max(0) - own) / np.maximum(1 - own, 1e-9)
            omitted[users, rank] |= draw_pairs(users, head[users, rank]) < chance
            listed[users] += ~omitted[users, rank]
        return omitted


def _join_codes(codes: IntArray) -> IntArray:
    """Return one class for each combination of codes; -1 for users without any."""
    codes = codes[:, None] if codes.ndim == 1 else codes
    known, cells = (codes >= 0).any(1), np.full(len(codes), -1, dtype=np.int64)
    cells[known] = np.unique(codes[known], axis=0, return_inverse=True)[1].reshape(-1)
    return cells


def _look_up(seen: sparse.csr_array, head: IntArray) -> BoolArray:
    """Return whether each ranked item was seen."""
    flags = np.zeros(head.shape, dtype=np.bool_)
    for user in range(len(head)):
        flags[user] = np.isin(head[user], seen.indices[seen.indptr[user] : seen.indptr[user + 1]])
    return flags


def _reach(omitted: BoolArray, k: int) -> BoolArray:
    """Return the places down to the end of each list."""
    listed_before: IntArray = np.cumsum(~omitted, axis=1) - ~omitted
    return np.asarray(listed_before < k)


def _collect_pairs(
    head: IntArray, is_seen: BoolArray, in_reach: BoolArray, cells: IntArray, places: IntArray, features: HeadFeatures
) -> RankedPairs:
    user, rank = np.nonzero(in_reach & (cells >= 0)[:, None] & (head >= 0))
    own = features.take(cells[user], user, rank)
    return RankedPairs(cells[user], places[rank], head[user, rank], is_seen[user, rank], own)


def _join_omissions(seen: sparse.csr_array, head: IntArray, omitted: BoolArray) -> sparse.csr_array:
    user, rank = np.nonzero(omitted)
    extra = sparse.csr_array((np.ones(len(user), dtype=np.int32), (user, head[user, rank])), shape=seen.shape)
    joined = sparse.csr_array(seen.astype(np.int32) + extra)
    joined.sum_duplicates()
    joined.data[:] = 1
    return joined
