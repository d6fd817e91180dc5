"""A game refuses what attacks could not use, and counts items without a vector."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from recveil.audits.membership.game import MembershipGame
from recveil.core.errors import DataError, UsageError
from recveil.core.types import Shadow, Watched

EMPTY = np.empty(0, dtype=np.int64)
EVERYBODY = np.ones(20, dtype=np.bool_)


def without_history(watched: Watched) -> Watched:
    return replace(watched, histories=[EMPTY, *watched.histories[1:]])


def without_list(watched: Watched) -> Watched:
    return replace(watched, lists=np.where(np.arange(20)[:, None] == 3, -1, watched.lists))


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda s, t: MembershipGame((), t), UsageError, "No shadow world"),
        (lambda s, t: MembershipGame((s,), without_history(t)), DataError, "1 of the 20 histories of the target"),
        (lambda s, t: MembershipGame((s,), without_list(t)), DataError, "1 of the 20 lists of the target are empty"),
        (lambda s, t: MembershipGame((s,), replace(t, lists=t.lists[:5])), DataError, r"lists of shape \(5, 6\)"),
        (lambda s, t: MembershipGame((s,), t, EVERYBODY), DataError, "All of the 20 users of the target"),
        (lambda s, t: MembershipGame((replace(s, member=~EVERYBODY),), t), DataError, "None of the 20 users of the"),
        (lambda s, t: MembershipGame((s,), t, EVERYBODY.astype(int)), DataError, "given as int64"),
        (
            lambda s, t: MembershipGame((s,), replace(t, item_vectors=np.ones((4, 2)))),
            DataError,
            "6 places, but the catalog has 4",
        ),
        (
            lambda s, t: MembershipGame((s,), t, None, np.array(["ann", "bob"]), np.array(["bob", "cid"])),
            DataError,
            "1 users are in both shadow and target, such as 'bob'",
        ),
    ],
)
def test_bad_games_are_refused(
    change: Callable[[Shadow, Watched], MembershipGame], error: type[Exception], message: str, make_seen_world
) -> None:
    shadow, target = make_seen_world(20, 1.0, 0), make_seen_world(20, 1.0, 1).watched
    with pytest.raises(error, match=message):
        change(shadow, target)


def test_items_without_a_vector_are_counted(make_seen_world) -> None:
    shadow, target = make_seen_world(40, 1.0, 0), make_seen_world(40, 1.0, 1).watched
    lists = target.lists.copy()
    lists[:3, 0] = 1_000
    [note] = MembershipGame((shadow,), replace(target, lists=lists)).notes
    assert note.startswith("In the target, 3 listed items and 0 items of histories have no item vector")
    assert MembershipGame((shadow,), target).notes == []
