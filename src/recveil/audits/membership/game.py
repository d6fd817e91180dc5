"""The membership game: shadow worlds with known members, and a target.

Attacks learn from the shadow worlds and see of the target what `Watched` holds. The true members of the target are kept
apart and used once, after every score is computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recveil.attacks.membership.difference_vectors import count_missing_vectors
from recveil.audits.membership.platforms import ServedPlatform
from recveil.core.errors import DataError, UsageError
from recveil.core.types import BoolArray, Shadow, Watched

__all__ = ["MembershipGame", "build_game"]


@dataclass(frozen=True, eq=False)
class MembershipGame:
    """Shadow worlds, the target, and its true members where they are known.

    `shadow_users` and `target_users` are the users' own ids, where known, to check that no user is in both.
    """

    shadows: Sequence[Shadow]
    target: Watched
    truth: BoolArray | None = None
    shadow_users: NDArray[Any] | None = None
    target_users: NDArray[Any] | None = None

    def __post_init__(self) -> None:
        if not self.shadows:
            raise UsageError("No shadow world was given. Attacks and rules learn from at least one.")
        for shadow in self.shadows:
            _check_watched(shadow.watched, "shadow")
            _check_members(shadow.member, shadow.watched, "shadow")
        _check_watched(self.target, "target")
        if self.truth is not None:
            _check_members(self.truth, self.target, "target")
        if self.shadow_users is not None and self.target_users is not None:
            shared = np.intersect1d(self.shadow_users, self.target_users)
            if len(shared):
                raise DataError(
                    f"{len(shared)} users are in both shadow and target, such as '{shared[0]}'. Leave them out of one: "
                    "an attack would know their membership."
                )

    @property
    def notes(self) -> list[str]:
        """Items without a vector, which are left out of the difference vectors."""
        notes = []
        for name, watched in [*(("shadow", shadow.watched) for shadow in self.shadows), ("target", self.target)]:
            if watched.item_vectors is None:
                continue
            missing = count_missing_vectors(watched)
            if missing.in_histories or missing.in_lists:
                notes.append(
                    f"In the {name}, {missing.in_lists:,} listed items and {missing.in_histories:,} items of histories "
                    "have no item vector and were left out of the difference vectors."
                )
        return notes


def build_game(
    shadow: ServedPlatform,
    target: ServedPlatform,
    *,
    shadow_users: NDArray[Any] | None = None,
    target_users: NDArray[Any] | None = None,
) -> MembershipGame:
    """Build the game of two platforms.

    Args:
        shadow: the platform of which the attacker knows all.
        target: the platform that the attacker sees from outside.
        shadow_users: ids of the shadow's users, where known.
        target_users: ids of the target's users, where known.
    """
    shadows = (Shadow(shadow.watched, shadow.member),)
    return MembershipGame(shadows, target.watched, target.member, shadow_users, target_users)


def _check_watched(watched: Watched, name: str) -> None:
    n = len(watched.histories)
    if watched.lists.ndim != 2 or len(watched.lists) != n or watched.lists.shape[1] < 1:
        raise DataError(f"The {name} has {n} histories and lists of shape {watched.lists.shape}. Each user needs both.")
    without_history = [user for user, history in enumerate(watched.histories) if len(history) == 0]
    if without_history:
        raise DataError(
            f"{len(without_history)} of the {n} histories of the {name} are empty, the first that of user "
            f"{without_history[0]}. Leave these users out."
        )
    without_list = np.flatnonzero((watched.lists < 0).all(1))
    if len(without_list):
        raise DataError(
            f"{len(without_list)} of the {n} lists of the {name} are empty, the first that of user {without_list[0]}. "
            "Leave these users out."
        )
    if watched.item_vectors is not None and watched.lists.shape[1] > len(watched.item_vectors):
        raise DataError(
            f"Lists of the {name} have {watched.lists.shape[1]} places, but the catalog has "
            f"{len(watched.item_vectors)} items. Use shorter lists."
        )


def _check_members(member: BoolArray, watched: Watched, name: str) -> None:
    if member.dtype != np.bool_ or member.shape != (len(watched.histories),):
        raise DataError(
            f"Members of the {name} were given as {member.dtype} of shape {member.shape}. One true or false is needed "
            f"for each of its {len(watched.histories)} users."
        )
    if member.all() or not member.any():
        raise DataError(
            f"{'All' if member.any() else 'None'} of the {len(member)} users of the {name} are members. Both members "
            "and non-members are needed."
        )
