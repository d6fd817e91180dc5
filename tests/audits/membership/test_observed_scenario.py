"""Files of two platforms become a game whose users and items are numbered alike."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from recveil.audits.membership.item_source import ItemSource
from recveil.audits.membership.observed_scenario import ObservedScenario
from recveil.audits.membership.scenarios import PreparedScenario
from recveil.core.errors import DataError, UsageError


def write_files(folder: Path, first_shadow_user: int = 100) -> ObservedScenario:
    """Write six users on each side; odd ones are members and are listed items of their histories."""
    paths = {}
    for side, first in (("target", 0), ("shadow", first_shadow_user)):
        users = range(first, first + 6)
        histories = {user: [(user * 3 + j) % 12 for j in range(4)] for user in users}
        lists = {user: histories[user][:3] if user % 2 else [9, 10, 11] for user in users}
        rows = {
            "histories": ["user_id,item_id", *(f"{user},{item}" for user in users for item in histories[user])],
            "members": ["user_id,member", *(f"{user},{user % 2}" for user in users)],
            "lists": [
                "user_id,item_id,rank",
                *(f"{user},{item},{place + 1}" for user in users for place, item in enumerate(lists[user])),
            ],
        }
        for name, lines in rows.items():
            path = folder / f"{side}-{name}.csv"
            path.write_text("\n".join(lines) + "\n")
            paths[f"{side}_{name}"] = path
    return ObservedScenario(**paths)


def build(scenario: ObservedScenario, *, with_item_vectors: bool = False) -> PreparedScenario:
    return scenario.build(ItemSource(), with_item_vectors=with_item_vectors, seed=0, device="cpu")


def test_files_become_a_game(tmp_path: Path) -> None:
    scenario = write_files(tmp_path)
    prepared = build(scenario)
    game = prepared.game
    assert game.truth is not None
    assert game.truth.tolist() == [False, True] * 3
    overlaps = [np.isin(row, h).sum() for row, h in zip(game.target.lists, game.target.histories, strict=True)]
    assert [overlaps[user] for user in (1, 3, 5)] == [3, 3, 3]
    assert (prepared.input.n_users, prepared.input.n_items, prepared.input.item_vectors) == (6, 12, "none")
    assert build(replace(scenario, k=2)).game.target.lists.shape == (6, 2)
    assert build(replace(scenario, target_members=None)).game.truth is None
    with pytest.raises(UsageError, match="the longest list in the files has 3 items"):
        build(replace(scenario, k=4))


def test_items_are_factored_from_the_shadow_histories_with_a_note(tmp_path: Path) -> None:
    prepared = build(write_files(tmp_path), with_item_vectors=True)
    assert "factored from the shadow histories" in prepared.notes[0]
    vectors = prepared.game.target.item_vectors
    assert vectors is not None
    shadow_items = np.unique(np.concatenate(list(prepared.game.shadows[0].watched.histories)))
    assert np.isfinite(vectors[shadow_items]).all()
    assert np.isnan(np.delete(vectors, shadow_items, axis=0)).all()


def test_users_on_both_sides_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="4 users are in both shadow and target, such as '2'"):
        build(write_files(tmp_path, first_shadow_user=2), with_item_vectors=True)
