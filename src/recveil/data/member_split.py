"""Split for membership inference: three parts with disjoint users, two of them half members.

The setting of the membership attacks on recommenders (Zhang et al., CCS 2021; Chi et al., 2024): item vectors are
learned on one part, the attack on the shadow part, and the target part is attacked. Departs: users are split, not
records, so no user is in two parts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from recveil.core.errors import DataError
from recveil.core.types import Dataset, IntArray
from recveil.data.cleaning import k_core

__all__ = ["FilterCounts", "MemberPart", "MemberSplit", "split_three_ways"]

MIN_USERS = 6
"""Users of the smallest split: a member and a non-member in shadow and in target, and two in the item part."""


@dataclass(frozen=True, eq=False)
class MemberPart:
    """Users of a shadow or target world.

    Attributes:
        data: the interactions of all users.
        member: whether the model is trained on each user.
    """

    data: Dataset
    member: NDArray[np.bool_]

    @property
    def members(self) -> Dataset:
        """Interactions of the members, on which the model is trained."""
        return self.data.take(self.member[self.data.user])


@dataclass(frozen=True)
class FilterCounts:
    """Counts of what the filters kept and removed, to be reported with every result.

    Attributes:
        users: users core.
        interactions: interactions core.
        users_short: users removed for too few interactions.
        items_rare: items removed for too few interactions, or with all their users.
        items_absent: items removed because the item-vector part does not hold them.
        interactions_absent: interactions removed with these items.
        users_emptied: users removed because no interaction was left after that.
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
    """Three parts with disjoint users, each numbered from 0, and common item ids.

    Attributes:
        item_part: interactions from which item vectors are learned.
        shadow: the attacker's world, whose members are known.
        target: the world that is attacked.
        filtered: counts of what the filters kept and removed.
    """

    item_part: Dataset
    shadow: MemberPart
    target: MemberPart
    filtered: FilterCounts


def split_three_ways(
    dataset: Dataset, *, user_minimum: int = 20, item_minimum: int = 1, rng: np.random.Generator
) -> MemberSplit:
    """Split the users at random into an item-vector part, a shadow and a target.

    Half of the users of shadow and target are members. Users and items with fewer interactions than the minimum are
    removed first, until none is left to remove (the papers use 20 per user for general recommenders, and 5 per user and
    item for sequential ones). Items of shadow and target that the item-vector part does not hold are removed next,
    because they have no vector. A user may fall below the minimum by that, and is removed only if no interaction is
    left. All counts are in `filtered`.

    Args:
        dataset: the interactions.
        user_minimum: interactions that a user must have.
        item_minimum: interactions that an item must have.
        rng: source of the random split.

    Raises:
        DataError: too few users are left.
    """
    core = k_core(dataset, user_core=user_minimum, item_core=item_minimum)
    if core.n_users < MIN_USERS:
        raise DataError(
            f"'{dataset.name}' cannot be split in three: {core.n_users} users have at least {user_minimum} "
            f"interactions, {MIN_USERS} are needed. Lower the minimum, or use more data."
        )
    third = rng.permutation(np.arange(core.n_users) % 3)
    in_part = np.zeros(core.n_items, dtype=np.bool_)
    in_part[core.item[third[core.user] == 0]] = True
    covered = core.take(in_part[core.item])
    items = np.flatnonzero(in_part)
    sides = [_select_users(covered, np.flatnonzero(third == part), items) for part in range(3)]
    filtered = FilterCounts(
        users=sum(side.n_users for side in sides),
        interactions=len(covered),
        users_short=len(np.unique(dataset.user)) - core.n_users,
        items_rare=len(np.unique(dataset.item)) - core.n_items,
        items_absent=core.n_items - len(items),
        interactions_absent=len(core) - len(covered),
        users_emptied=core.n_users - sum(side.n_users for side in sides),
    )
    return MemberSplit(sides[0], _draw_members(sides[1], rng), _draw_members(sides[2], rng), filtered)


def _select_users(dataset: Dataset, users: IntArray, items: IntArray) -> Dataset:
    """Select the interactions of these users and renumber users and items.

    Users without interactions are left out.
    """
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
