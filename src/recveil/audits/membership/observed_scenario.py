"""A scenario from files: two platforms that were seen from outside."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from recveil.audits.membership.game import MembershipGame
from recveil.audits.membership.item_source import ItemSource, ItemTable, factor_item_table
from recveil.audits.membership.scenarios import PreparedScenario
from recveil.core.errors import UsageError
from recveil.core.membership_parts import MembershipInput
from recveil.core.random import make_generator
from recveil.core.types import IntArray, Shadow, Watched
from recveil.data.io.ids import Ids, normalize_ids, unify_types
from recveil.data.io.membership_files import (
    Platform,
    collect_item_ids,
    match_ids,
    read_members,
    read_platform,
    scatter_rows,
)

__all__ = ["ObservedScenario"]

FACTORED_NOTE = (
    "No item vectors were given, so they were factored from the shadow histories: these users influenced them "
    "and the target users did not. Vectors from elsewhere make a fairer attack."
)


@dataclass(frozen=True)
class ObservedScenario:
    """Files of what was seen of a target and of a shadow, and of their members.

    Args:
        target_histories: histories of the target's users.
        target_lists: lists served to them.
        shadow_histories: histories of the shadow's users.
        shadow_lists: lists served to them.
        shadow_members: members of the shadow.
        target_members: members of the target; without them there are scores and no verdict.
        k: places of the lists that are used; all of them by default.
    """

    target_histories: Path
    target_lists: Path
    shadow_histories: Path
    shadow_lists: Path
    shadow_members: Path
    target_members: Path | None = None
    k: int | None = None

    def list_paths(self) -> list[tuple[str, Path | None]]:
        """List all files that are read, each with the name of its argument."""
        return [(name, path) for name, path in vars(self).items() if name != "k"]

    @property
    def has_references(self) -> bool:
        """Whether reference models will be trained; there is no model to train."""
        return False

    def build(self, items: ItemSource, *, with_item_vectors: bool, seed: int, device: str | None) -> PreparedScenario:
        """Read all files and number users and items alike.

        Args:
            items: files of what the attacker knows of the items; without any, items are factored from the shadow
                histories.
            with_item_vectors: whether any attack needs item vectors.
            seed: seed of everything random.
            device: device to train on; None chooses one.
        """
        ids = collect_item_ids([self.target_histories, self.target_lists, self.shadow_histories, self.shadow_lists])
        target = read_platform(self.target_histories, self.target_lists, ids)
        shadow = read_platform(self.shadow_histories, self.shadow_lists, ids)
        # The game checks the users, which must come before item vectors are made.
        game = self._build_game(shadow, target)
        table, notes = None, []
        if with_item_vectors:
            table = items.read_table(ids)
            if table is None:
                table, notes = _factor_shadow(shadow, ids, seed=seed, device=device), [FACTORED_NOTE]
        vectors = None if table is None else table.vectors
        shadows = [replace(world, watched=replace(world.watched, item_vectors=vectors)) for world in game.shadows]
        summary = MembershipInput(
            name=self.target_lists.name,
            n_users=len(target.users),
            n_items=len(ids),
            item_vectors="none" if table is None else table.source,
        )
        game = replace(game, shadows=shadows, target=replace(game.target, item_vectors=vectors))
        return PreparedScenario(game, summary, notes)

    def _build_game(self, shadow: Platform, target: Platform) -> MembershipGame:
        member = read_members(self.shadow_members, shadow.users)
        truth = None if self.target_members is None else read_members(self.target_members, target.users)
        shadow_users, target_users = (
            np.asarray(users.to_numpy(zero_copy_only=False)) for users in unify_types(shadow.users, target.users)
        )
        shadow_world = Shadow(Watched(shadow.histories, self._cut_lists(shadow)), member)
        watched = Watched(target.histories, self._cut_lists(target))
        return MembershipGame((shadow_world,), watched, truth, shadow_users, target_users)

    def _cut_lists(self, platform: Platform) -> IntArray:
        """Return the first k places of the lists."""
        width = platform.lists.shape[1]
        if self.k is not None and self.k > width:
            raise UsageError(f"`k` is {self.k}, but the longest list in the files has {width} items. Use {width}.")
        return platform.lists[:, : self.k]


def _factor_shadow(shadow: Platform, ids: Ids, *, seed: int, device: str | None) -> ItemTable:
    rng = make_generator(seed, "membership", "items")
    table = factor_item_table(shadow.data, "the shadow histories", device=device, rng=rng)
    rows = match_ids(normalize_ids(ids, "the items"), normalize_ids(shadow.data.item_ids, "the shadow histories"))
    return replace(table, vectors=scatter_rows(table.vectors, rows))
