"""Scenarios of a membership audit; here a model to be trained and its shadow.

Both are prepared into games: histories and lists of shadow and target, item vectors, and the members.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from recveil.audits.membership.game import MembershipGame, build_game
from recveil.audits.membership.item_source import (
    ItemSource,
    ItemTable,
    WrapModel,
    factor_item_table,
    keep_model,
)
from recveil.audits.membership.platforms import (
    ServedPlatform,
    ServingPolicy,
    TrainedPlatform,
    compare_nonmember_hits,
    defend_lists,
    measure_hit_rates,
    train_platform,
)
from recveil.audits.membership.references import ReferenceModels
from recveil.core.errors import UsageError, unknown_name
from recveil.core.membership_parts import (
    FilteredCounts,
    ListDefenseSummary,
    MembershipInput,
    MembershipUtility,
    ReferenceProtocol,
    ServingRule,
)
from recveil.core.privacy_parts import PrivacyGuarantee
from recveil.core.protocols import ListDefense, PrivateRecommender, Recommender
from recveil.core.random import make_generator
from recveil.core.types import ReferenceSignals
from recveil.data.member_split import FilterCounts, MemberPart, MemberSplit, split_three_ways
from recveil.data.sources.catalog import find_data, load_dataset_or_demo
from recveil.defenses import DEFENSES
from recveil.models import MODELS
from recveil.models.construction import make_model

__all__ = ["MethodConfig", "PreparedScenario", "TrainedScenario"]

UNRELATED_SPACES = (
    "Shadow and target are different data sets. Their item vectors were learned apart and share no axes, so attacks on "
    "difference vectors can carry over little more than lengths."
)


GUARANTEE_LOST = (
    "The guarantee of the model does not hold for these lists: they treat members and non-members differently, or were "
    "changed by a defense that knows the members. Leave out `defense`, and use `serving` fold-in with `seen` excluded "
    "or kept."
)


@dataclass(frozen=True)
class MethodConfig:
    """A recommender or a defense by name, with its options."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class PreparedScenario:
    """The game to be played, and the facts that are known before any attack.

    With a defense there are two more games to compare: `before`, where nothing is defended, and `static`, where the
    target is defended and the attacker learns from an undefended shadow. `privacy` is the guarantee of a target that
    has one.
    """

    game: MembershipGame
    input: MembershipInput
    notes: list[str] = field(default_factory=list)
    filtered: FilteredCounts | None = None
    utility: MembershipUtility | None = None
    references: ReferenceProtocol | None = None
    defense: ListDefenseSummary | None = None
    before: MembershipGame | None = None
    static: MembershipGame | None = None
    privacy: PrivacyGuarantee | None = None


@dataclass(frozen=True)
class TrainedScenario:
    """A target to be trained, the shadow of the attacker, and how both serve.

    Args:
        data: name or path of the data set, or `demo`.
        target: the model under attack.
        shadow: the model that the attacker trains.
        policy: how lists are served.
        user_minimum: interactions that a user must have; 20, or 5 with a sequential model.
        shadow_data: data set that the attacker trains the shadow on; a third of the target's users by default.
        defense: a defense of the lists.
        references: reference models, for the attacks that need them.
        wrap_model: see `WrapModel`.
    """

    data: str
    target: MethodConfig
    shadow: MethodConfig
    policy: ServingPolicy = ServingPolicy()
    user_minimum: int | None = None
    shadow_data: str | None = None
    defense: MethodConfig | None = None
    references: ReferenceModels | None = None
    wrap_model: WrapModel = keep_model

    def __post_init__(self) -> None:
        if self.references is None:
            return
        if self.shadow_data is not None:
            raise UsageError("Reference models are trained on users of the target. Leave out `shadow_data` or them.")
        self.references.check_policy(self.policy)
        if self.defense is not None:
            raise UsageError(
                "The defense changes lists, but attacks with reference models read scores, so it has no effect on "
                "them. Leave out the defense or these attacks."
            )

    def list_paths(self) -> list[tuple[str, Path | None]]:
        """List all files that are read, each with the name of its argument."""
        more = [] if self.shadow_data is None else [("shadow_data", find_data(self.shadow_data))]
        return [("data", find_data(self.data)), *more]

    @property
    def has_references(self) -> bool:
        """Whether reference models will be trained."""
        return self.references is not None

    @property
    def minimums(self) -> tuple[int, int]:
        """Interactions that a user and an item must have.

        They are 20 and 1, or 5 and 5 where a model learns sequences.
        """
        is_sequential = any(MODELS.traits(config.name).is_sequential for config in (self.target, self.shadow))
        users, items = (5, 5) if is_sequential else (20, 1)
        return users if self.user_minimum is None else self.user_minimum, items

    def build(self, items: ItemSource, *, with_item_vectors: bool, seed: int, device: str | None) -> PreparedScenario:
        """Split the users in three, train both models and serve all users.

        Args:
            items: files of what the attacker knows of the items; without any, items are factored from the histories of
                users of neither shadow nor target.
            with_item_vectors: whether any attack needs item vectors.
            seed: seed of everything random.
            device: device to train on; None chooses one.
        """
        models = {role: self._make_model(role, device) for role in ("shadow", "target")}
        defense = None if self.defense is None else _make_list_defense(self.defense)
        split = self.split_users(seed)
        table = self._get_item_table(items, split, seed=seed, device=device) if with_item_vectors else None
        shadow_table = table
        if self.shadow_data is not None:
            outside = self._split_data(self.shadow_data, seed)
            if with_item_vectors:
                shadow_table = self._get_item_table(items, outside, seed=seed, device=device)
            split = replace(split, shadow=_name_users(outside.shadow, self.shadow_data))
        parts = {"shadow": split.shadow, "target": split.target}
        trained = {
            role: train_platform(part, models[role], self.policy, rng=make_generator(seed, "membership", role))
            for role, part in parts.items()
        }
        signals = self._collect_signals(split, trained["target"], seed=seed, device=device)
        vectors, shadow_vectors = (None if each is None else each.vectors for each in (table, shadow_table))
        shadow, target = trained["shadow"].serve_lists(shadow_vectors), trained["target"].serve_lists(vectors, signals)
        prepared = PreparedScenario(
            game=_build_game_of_split(shadow, target, split),
            input=self._describe_input(split, table),
            notes=[
                *_describe_filters(split.filtered),
                *([] if self.shadow_data is None else [UNRELATED_SPACES]),
                *_describe_privacy(trained["target"], has_defense=defense is not None),
            ],
            filtered=FilteredCounts(**asdict(split.filtered)),
            utility=MembershipUtility(after=measure_hit_rates(target)),
            references=self._describe_references(trained["target"].model),
            privacy=trained["target"].guarantee if defense is None else None,
        )
        if self.defense is None or defense is None:
            return prepared
        options = asdict(defense) if is_dataclass(defense) else dict(self.defense.options)
        summary = ListDefenseSummary(name=self.defense.name, options=options)
        return replace(_defend(prepared, shadow, target, defense, split, seed), defense=summary)

    def _make_model(self, role: str, device: str | None) -> Recommender:
        config = self.shadow if role == "shadow" else self.target
        data = self.shadow_data or self.data if role == "shadow" else self.data
        return self.wrap_model(config.name, make_model(config.name, data, config.options, device))

    def split_users(self, seed: int) -> MemberSplit:
        """Split the users in three parts, by this seed."""
        return self._split_data(self.data, seed)

    def _split_data(self, name: str, seed: int) -> MemberSplit:
        user_minimum, item_minimum = self.minimums
        data = load_dataset_or_demo(name, seed=seed)
        rng = make_generator(seed, "membership", "parts")
        return split_three_ways(data, user_minimum=user_minimum, item_minimum=item_minimum, rng=rng)

    def _get_item_table(self, items: ItemSource, split: MemberSplit, *, seed: int, device: str | None) -> ItemTable:
        table = items.read_table(split.item_part.item_ids)
        if table is not None:
            return table
        rng = make_generator(seed, "membership", "items")
        origin = "users of neither shadow nor target"
        return factor_item_table(split.item_part, origin, device=device, rng=rng, wrap_model=self.wrap_model)

    def _collect_signals(
        self, split: MemberSplit, target: TrainedPlatform, *, seed: int, device: str | None
    ) -> ReferenceSignals | None:
        """Train reference models of the shadow's kind and collect their signals.

        The attacker takes the target for a model of this kind.
        """
        if self.references is None:
            return None

        def make_reference() -> Recommender:
            return make_model(self.shadow.name, self.data, self.shadow.options, device)

        rng = make_generator(seed, "membership", "references")
        return self.references.collect_signals(split.target, target, make_reference, rng=rng)

    def _describe_references(self, model: Recommender) -> ReferenceProtocol | None:
        if self.references is None:
            return None
        return ReferenceProtocol(n=self.references.n, signal=self.references.choose_signal(model))

    def _describe_input(self, split: MemberSplit, table: ItemTable | None) -> MembershipInput:
        user_minimum, item_minimum = self.minimums
        return MembershipInput(
            name=split.target.data.name if self.data == "demo" else Path(self.data).stem,
            n_users=split.target.data.n_users,
            n_items=split.item_part.n_items,
            item_vectors="none" if table is None else table.source,
            model=self.target.name,
            shadow_model=self.shadow.name,
            shadow_data=self.shadow_data,
            serving=ServingRule(**asdict(self.policy)),
            user_minimum=user_minimum,
            item_minimum=item_minimum,
        )


def _defend(
    prepared: PreparedScenario,
    shadow: ServedPlatform,
    target: ServedPlatform,
    defense: ListDefense,
    split: MemberSplit,
    seed: int,
) -> PreparedScenario:
    """Return the defended game, with the undefended and the static one beside it."""
    defended_shadow, defended_target = (
        defend_lists(platform, defense, rng=make_generator(seed, "membership", "defense", role))
        for role, platform in (("shadow", shadow), ("target", target))
    )
    utility = MembershipUtility(
        after=measure_hit_rates(defended_target),
        before=measure_hit_rates(target),
        non_member_change=compare_nonmember_hits(target, defended_target),
    )
    return replace(
        prepared,
        game=_build_game_of_split(defended_shadow, defended_target, split),
        utility=utility,
        before=prepared.game,
        static=_build_game_of_split(shadow, defended_target, split),
    )


def _name_users(part: MemberPart, data: str) -> MemberPart:
    """Name the users by their data set, because two data sets may number different people alike."""
    ids = np.array([f"{data}:{user}" for user in part.data.user_ids])
    return replace(part, data=replace(part.data, user_ids=ids))


def _describe_privacy(target: TrainedPlatform, *, has_defense: bool) -> list[str]:
    """Say what a private model left out, and whether what is done with its lists costs its guarantee."""
    if not isinstance(target.model, PrivateRecommender):
        return []
    lost = [GUARANTEE_LOST] if has_defense or target.guarantee is None else []
    return [*lost, *target.model.notes_]


def _make_list_defense(config: MethodConfig) -> ListDefense:
    known = [traits.name for traits in DEFENSES.all_traits() if traits.hides_members]
    if config.name not in known:
        raise unknown_name("list defense", config.name, known)
    defense: ListDefense = DEFENSES.make(config.name, **config.options)
    return defense


def _build_game_of_split(shadow: ServedPlatform, target: ServedPlatform, split: MemberSplit) -> MembershipGame:
    shadow_users, target_users = split.shadow.data.user_ids, split.target.data.user_ids
    return build_game(shadow, target, shadow_users=shadow_users, target_users=target_users)


def _describe_filters(counts: FilterCounts) -> list[str]:
    """Say what the filters removed; nothing where they removed nothing."""
    short = {"users": counts.users_short, "items": counts.items_rare}
    absent = {"items": counts.items_absent, "interactions": counts.interactions_absent, "users": counts.users_emptied}
    removed = [
        f"{', '.join(f'{n:,} {noun}' for noun, n in numbers.items() if n)} {reason}"
        for numbers, reason in ((short, "for too few interactions"), (absent, "for items without a vector"))
        if any(numbers.values())
    ]
    rest = f"{counts.users:,} users and {counts.interactions:,} interactions remain, a third of the users in each part."
    return [f"Left out: {'; '.join(removed)}. {rest}"] if removed else []
