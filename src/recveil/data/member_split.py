"""Who was in the training data: user-disjoint thirds for membership inference, two of them half members.

The setting of the membership attacks on recommenders (Zhang et al., CCS 2021; Chi et al., 2024): item vectors
are learned on one part, the attack on the shadow part, and the target part is what is attacked. Departs: users
are split, not records, so nobody sits in two parts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from recveil.core.errors import DataError
from recveil.core.types import Dataset, IntArray
from recveil.data.cleaning import k_core

__all__ = ["FilterCounts", "MemberSplit", "MemberPart", "split_three_ways"]

MIN_USERS = 6
"""Two users in each part: a member and a non-member in shadow and in target."""


@dataclass(frozen=True, eq=False)
class MemberPart:
    """The users of a shadow or target world: all their histories, and who of them the model is trained on."""

    data: Dataset
    member: NDArray[np.bool_]

    @property
    def members(self) -> Dataset:
        """The interactions of the members, in the same id space: what the model of this world may see."""
        return self.data.take(self.member[self.data.user])


@dataclass(frozen=True)
class FilterCounts:
    """What the filters left and what they took, to be reported beside every number.

    `users_short` and `items_rare` fell to the minimum counts (an item also by losing all its users); `items_absent`
    were in shadow or target but not in the item-vector part and took `interactions_absent` with them;
    `users_emptied` had nothing left after that.
    """

    users: int
    interactions: int
    users_short: int
    items_rare: int
    items_absent: int
    interactions_absent: int
    users_emptied: int


@dataclass(frozen=True, eq=False)
class MemberSplit:
    """Three parts with disjoint users, each numbered from 0, over one numbering of the items."""

    item_part: Dataset
    shadow: MemberPart
    target: MemberPart
    filtered: FilterCounts


def split_three_ways(
    dataset: Dataset, *, user_minimum: int = 20, item_minimum: int = 1, rng: np.random.Generator
) -> MemberSplit:
    """Split the users at random into an item-vector part, a shadow and a target, the last two half members.

    Users and items with fewer interactions than the minimum are left out first, to the fixed point (general
    recommenders: users 20; sequential ones: users 5, items 5). Items of shadow and target that the item-vector part
    does not hold are then dropped, for they have no vector; a user may fall below the minimum by that, and is left
    out only when nothing remains. All counts are in `filtered`.
    """
    kept = k_core(dataset, user_core=user_minimum, item_core=item_minimum)
    if kept.n_users < MIN_USERS:
        raise DataError(
            f"'{dataset.name}' cannot be split in three: {kept.n_users} users have at least {user_minimum} "
            f"interactions, {MIN_USERS} are needed. Lower the minimum, or use more data."
        )
    third = rng.permutation(np.arange(kept.n_users) % 3)
    in_part = np.zeros(kept.n_items, dtype=np.bool_)
    in_part[kept.item[third[kept.user] == 0]] = True
    covered = kept.take(in_part[kept.item])
    items = np.flatnonzero(in_part)
    sides = [_select_users(covered, np.flatnonzero(third == part), items) for part in range(3)]
    filtered = FilterCounts(
        users=sum(side.n_users for side in sides),
        interactions=len(covered),
        users_short=len(np.unique(dataset.user)) - kept.n_users,
        items_rare=len(np.unique(dataset.item)) - kept.n_items,
        items_absent=kept.n_items - len(items),
        interactions_absent=len(kept) - len(covered),
        users_emptied=kept.n_users - sum(side.n_users for side in sides),
    )
    return MemberSplit(sides[0], _draw_members(sides[1], rng), _draw_members(sides[2], rng), filtered)


def _select_users(dataset: Dataset, users: IntArray, items: IntArray) -> Dataset:
    """The interactions of these users, users and items numbered anew; users without interactions are left out."""
    rows = dataset.take(np.isin(dataset.user, users))
    users = np.unique(rows.user)
    return replace(
        rows,
        user=np.searchsorted(users, rows.user),
        item=np.searchsorted(items, rows.item),
        user_ids=dataset.user_ids[users],
        item_ids=dataset.item_ids[items],
        attributes={name: attribute.take(users) for name, attribute in dataset.attributes.items()},
    )


def _draw_members(data: Dataset, rng: np.random.Generator) -> MemberPart:
    if data.n_users < 2:
        raise DataError(
            f"'{data.name}' cannot be split in three: a part has fewer than two users whose items the item-vector part "
            f"holds. Use more data."
        )
    member = np.zeros(data.n_users, dtype=np.bool_)
    member[rng.permutation(data.n_users)[: data.n_users // 2]] = True
    return MemberPart(data, member)
