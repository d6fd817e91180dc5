"""The stage for a membership audit: a model trained here and its shadow, or two platforms that were seen from outside.

Either way it comes to games: histories and lists of shadow and target, item vectors, and who is a member.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recveil.attacks.membership.item_texts import encode_item_texts
from recveil.attacks.membership.reference_attacks import Evidence
from recveil.audits.catalog import model_for
from recveil.audits.membership.audit import MembershipGame
from recveil.audits.membership.platforms import (
    ServedPlatform,
    ServingPolicy,
    TrainedPlatform,
    compare_nonmember_hits,
    defend_lists,
    factor_items,
    measure_hit_rates,
    train_platform,
)
from recveil.audits.membership.references import ReferenceModels
from recveil.core.errors import UsageError
from recveil.core.protocols import Recommender
from recveil.core.random import generator
from recveil.core.types import Dataset, FloatArray, Shadow, Watched
from recveil.data.io.ids import Ids, alike, comparable
from recveil.data.io.membership_files import Platform, item_ids, placed, read_members, read_platform, read_texts, spread
from recveil.data.io.vectors import read_embeddings
from recveil.data.member_split import Filtered, Side, three_way
from recveil.data.sources.catalog import load_data
from recveil.defenses.lists.popularity import Popularity
from recveil.models.lfm import LFM

__all__ = ["ItemSource", "ModelConfig", "ObservedScenario", "PreparedScenario", "TrainedScenario"]

SEQUENTIAL = ("bert4rec", "caser", "gru4rec")
DEFAULT_LIST_LENGTH = 100


@dataclass(frozen=True)
class ItemSource:
    """What the outsider knows of the items: a table of vectors, or texts; else they are factored from histories."""

    vectors: Path | None = None
    texts: Path | None = None

    def __post_init__(self) -> None:
        if self.vectors and self.texts:
            raise UsageError("Give either --item-vectors or --item-texts, not both.")

    def read(self, ids: Ids) -> FloatArray | None:
        """A vector for each of these items, NaN where there is none; None where no file was given."""
        if self.texts is not None:
            return encode_item_texts(read_texts(self.texts, ids))
        if self.vectors is None:
            return None
        table = read_embeddings(self.vectors, of="item")
        return spread(table.x, placed(comparable(ids, "the items"), comparable(table.ids, self.vectors)))


@dataclass(frozen=True, eq=False)
class PreparedScenario:
    """What is attacked and what is known of it; `before` and `static` are the games that a defense is compared by.

    In `before` nobody is defended; in `static` the target is and the attacker learns from a shadow that is not.
    """

    game: MembershipGame
    about: Mapping[str, Any]
    facts: Mapping[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    before: MembershipGame | None = None
    static: MembershipGame | None = None


@dataclass(frozen=True)
class ModelConfig:
    """A recommender by name, with options."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def made(self, data: str, device: str | None) -> Recommender:
        """Ready to be trained, with the settings that were found for this data set."""
        return model_for(data, self.name, self.options, device)


@dataclass(frozen=True)
class TrainedScenario:
    """A target to be trained here, the shadow that the attacker trains, and how both serve.

    `kept` takes each model, by name, before it is trained: a study looks up there whether it was trained before.
    `references` are trained beside the target, for the attacks that compare with such models.
    """

    data: str
    target: ModelConfig
    shadow: ModelConfig
    policy: ServingPolicy
    user_minimum: int | None = None
    defense: Popularity | None = None
    wrap_model: Callable[[str, Recommender], Recommender] = lambda name, model: model
    references: ReferenceModels | None = None

    def __post_init__(self) -> None:
        if self.references is None:
            return
        self.references.check(self.policy)
        if self.defense is not None:
            raise UsageError(
                "The defense changes lists, and attacks with reference models look at scores: it cannot help against "
                "them. Leave out one."
            )

    @property
    def minimums(self) -> tuple[int, int]:
        """Interactions that a user and an item must have: 20 and 1, or 5 and 5 where a model learns sequences."""
        sequential = any(model.name in SEQUENTIAL for model in (self.target, self.shadow))
        users, items = (5, 5) if sequential else (20, 1)
        return users if self.user_minimum is None else self.user_minimum, items

    def build(self, items: ItemSource, *, vectors: bool, seed: int, device: str | None) -> PreparedScenario:
        """Split the users in three, train both models and serve everybody; without `vectors` items stay numbers."""
        models = [self.wrap_model(model.name, model.made(self.data, device)) for model in (self.shadow, self.target)]
        user_minimum, item_minimum = self.minimums
        data = load_data(self.data, seed=seed)
        rng = generator(seed, "membership", "parts")
        parts = three_way(data, user_minimum=user_minimum, item_minimum=item_minimum, rng=rng)
        known, source = None, "none"
        if vectors:
            known, source = self._items(items, parts.item_part, seed=seed, device=device)
        sides = {"shadow": parts.shadow, "target": parts.target}
        trained = [
            train_platform(side, model, self.policy, rng=generator(seed, "membership", name))
            for (name, side), model in zip(sides.items(), models, strict=True)
        ]
        served = [platform.serve_lists(known) for platform in trained]
        ids = [side.data.user_ids for side in sides.values()]
        about = {
            "name": data.name if self.data == "demo" else Path(self.data).stem,
            "model": self.target.name,
            "shadow_model": self.shadow.name,
            "n_users": len(ids[1]),
            "n_items": parts.item_part.n_items,
            "item_vectors": source,
            "serving": asdict(self.policy),
            "user_minimum": user_minimum,
            "item_minimum": item_minimum,
        }
        notes = _said(parts.filtered)
        facts = {"filtered": asdict(parts.filtered), "utility": _utility(served[1])}
        evidence = self._evidence(parts.target, trained[1], seed=seed, device=device)
        game = replace(_game(served[0], served[1], ids), evidence=evidence)
        if self.defense is None:
            return PreparedScenario(game, about, facts, notes)
        shadow, target = (
            defend_lists(one, self.defense, rng=generator(seed, "membership", "defense", name))
            for name, one in zip(sides, served, strict=True)
        )
        lost = compare_nonmember_hits(served[1], target).to_dict()
        facts |= {
            "utility": {"before": facts["utility"], "after": _utility(target), "others_lost": lost},
            "defense": {"method": "popularity", **asdict(self.defense)},
        }
        return PreparedScenario(_game(shadow, target, ids), about, facts, notes, game, _game(served[0], target, ids))

    def _evidence(self, side: Side, target: TrainedPlatform, *, seed: int, device: str | None) -> Evidence | None:
        """What reference models say, of the kind that the shadow is: that is what the attacker takes the target for."""
        if self.references is None:
            return None
        rng = generator(seed, "membership", "references")
        return self.references.evidence(side, target, lambda: self.shadow.made(self.data, device), rng=rng)

    def _items(self, items: ItemSource, part: Dataset, *, seed: int, device: str | None) -> tuple[FloatArray, str]:
        known = items.read(part.item_ids)
        if known is not None:
            return known, "texts, hashed" if items.texts else "given"
        rng = generator(seed, "membership", "items")
        factors = factor_items(part, self.wrap_model("lfm", LFM(device=device)), rng=rng)
        return factors, "factored from users of neither shadow nor target (LFM)"


@dataclass(frozen=True)
class ObservedScenario:
    """Files of what was seen of a target and of a shadow, and of who is a member."""

    target_histories: Path
    target_lists: Path
    shadow_histories: Path
    shadow_lists: Path
    shadow_members: Path
    target_members: Path | None = None
    k: int | None = None

    def build(self, items: ItemSource, *, vectors: bool, seed: int, device: str | None) -> PreparedScenario:
        """Read and number everything alike; without item vectors those of the shadow histories are made."""
        tables = [self.target_histories, self.target_lists, self.shadow_histories, self.shadow_lists]
        ids = item_ids(tables)
        target = read_platform(self.target_histories, self.target_lists, ids)
        shadow = read_platform(self.shadow_histories, self.shadow_lists, ids)
        member = read_members(self.shadow_members, shadow.users)
        truth = None if self.target_members is None else read_members(self.target_members, target.users)
        users = alike(shadow.users, target.users)
        blind = [Watched(platform.histories, self._cut(platform)) for platform in (shadow, target)]
        raw = [np.asarray(u.to_numpy(zero_copy_only=False)) for u in users]
        # Whatever is wrong with the users is said before item vectors are made.
        game = MembershipGame((Shadow(blind[0], member),), blind[1], truth, raw[0], raw[1])
        known, source, notes = None, "none", []
        if vectors:
            known, source = items.read(ids), "texts, hashed" if items.texts else "given"
        if vectors and known is None:
            known = _factored(shadow, ids, seed=seed, device=device)
            source = "factored from the shadow histories (LFM)"
            notes = [
                "No item vectors were given, so they were factored from the shadow histories: the shadow users had a "
                "part in them and the target users had none. Vectors from elsewhere make a fairer attack."
            ]
        seen, watched = (replace(one, item_vectors=known) for one in blind)
        about = {
            "name": self.target_lists.name,
            "n_users": len(target.users),
            "n_items": len(ids),
            "item_vectors": source,
            "serving": None,
        }
        return PreparedScenario(replace(game, shadows=(Shadow(seen, member),), target=watched), about, {}, notes)

    def _cut(self, platform: Platform) -> NDArray[np.int64]:
        """The first k places of the lists."""
        width = platform.lists.shape[1]
        if self.k is not None and self.k > width:
            raise UsageError(f"--k is {self.k}, but the longest list in the files has {width} items. Use {width}.")
        return platform.lists[:, : self.k]


def _factored(shadow: Platform, ids: Ids, *, seed: int, device: str | None) -> FloatArray:
    data = shadow.data
    rows = factor_items(data, LFM(device=device), rng=generator(seed, "membership", "items"))
    return spread(rows, placed(comparable(ids, "the items"), comparable(data.item_ids, "the shadow histories")))


def _game(shadow: ServedPlatform, target: ServedPlatform, ids: list[NDArray[Any]]) -> MembershipGame:
    return MembershipGame((shadow.shadow,), target.watched, target.member, ids[0], ids[1])


def _utility(served: ServedPlatform) -> dict[str, Any]:
    """How often the item held back is in the list."""
    return {who: e.to_dict() for who, e in measure_hit_rates(served).items()}


def _said(lost: Filtered) -> list[str]:
    """What the filters took, where they took anything."""
    short = {"users": lost.users_short, "items": lost.items_rare}
    absent = {"items": lost.items_absent, "interactions": lost.interactions_absent, "users": lost.users_emptied}
    said = [
        f"{', '.join(f'{n:,} {what}' for what, n in counts.items() if n)} {why}"
        for counts, why in ((short, "for too few interactions"), (absent, "for items without a vector"))
        if any(counts.values())
    ]
    rest = f"{lost.users:,} users and {lost.interactions:,} interactions remain, a third of the users in each part."
    return [f"Left out: {'; '.join(said)}. {rest}"] if said else []
