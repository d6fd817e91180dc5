"""A cell that attacks membership: target and shadow trained or looked up, served, and attacked beside the rules."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

from recveil.audits.catalog import LIST_DEFENSES, MEMBERSHIP_ATTACKS, lookup, make
from recveil.audits.membership.audit import MembershipAudit, MembershipGame, run_membership_attacks
from recveil.audits.membership.platforms import ServingPolicy
from recveil.audits.membership.scenarios import ItemSource, ModelConfig, TrainedScenario
from recveil.core.errors import DataError, UsageError, unknown_name
from recveil.core.protocols import MembershipAttack, Recommender
from recveil.core.timing import Clock
from recveil.core.types import Estimate, Record
from recveil.data.sources.catalog import locate
from recveil.studies.model_cache import CachedModel
from recveil.studies.plans import Cell

__all__ = ["GENERATORS", "parse_attacks", "choose_item_source", "measure_membership_cell", "build_world"]

GENERATORS = ("factors", "texts")
"""Where item vectors come from: factors of other users' histories, or hashed texts in items.parquet of the data."""

TARGET = "membership"


def measure_membership_cell(cell: Cell, cache: Path) -> tuple[list[Record], dict[str, Any], dict[str, float]]:
    """Records, who was attacked, and seconds; of a defended target also the attacker who does not know of it."""
    clock, attacks = Clock(), parse_attacks(cell)
    world = build_world(cell, cache)
    with clock.step("make the game"):
        stage = world.build(choose_item_source(cell), vectors=bool(attacks), seed=cell.seed, device=cell.device)
    rows = _record_utility(cell, stage.facts["utility"])
    details: dict[str, Any] = {"about": dict(stage.about), "notes": [*stage.notes, *stage.game.notes]}
    games: dict[str, MembershipGame | None] = {"": stage.game, ", static": stage.static}
    for suffix, game in games.items():
        if game is not None:
            with clock.step(f"attack{suffix}"):
                found = run_membership_attacks(game, parse_attacks(cell), seed=cell.seed, jointly=False)
            rows += _record_attacks(cell, found, suffix)
            details[f"attacks{suffix}"] = found.to_dict()["attacks"]
            details |= {"n": len(found.users), "members": int(found.truth.sum()) if found.truth is not None else None}
    return rows, details, clock.seconds


def build_world(cell: Cell, cache: Path) -> TrainedScenario:
    """What is trained, and how it serves; models are kept by the hash of what decides them."""

    def kept(name: str, model: Recommender) -> Recommender:
        return CachedModel(model, name, cache)

    target, shadow = (ModelConfig(cell.at[key]["name"], cell.at[key]["options"]) for key in ("target", "shadow"))
    policy = ServingPolicy(cell.at["serving"], cell.settings["seen"], cell.settings["list_length"])
    chosen, least = cell.at["defense"], cell.settings["user_minimum"] or None
    defense: Any = None
    if chosen["name"] != "none":
        defense = make("list defense", chosen["name"], LIST_DEFENSES, **chosen["options"])
    return TrainedScenario(cell.at["data"], target, shadow, policy, least, defense, kept)


def parse_attacks(cell: Cell) -> dict[str, MembershipAttack]:
    """The attacks named between commas; the rules need no naming."""
    names = [name.strip() for name in cell.at["attack"].split(",")]
    return {name: _make_attack(name, cell.device) for name in names if name not in ("", "rules")}


def choose_item_source(cell: Cell) -> ItemSource:
    """What the outsider knows of the items."""
    if cell.at["generator"] not in GENERATORS:
        raise unknown_name("generator of item vectors", cell.at["generator"], GENERATORS)
    if cell.at["generator"] == "factors":
        return ItemSource()
    folder = locate(cell.at["data"])
    texts = None if folder is None else folder / "items.parquet"
    if texts is None or not texts.is_file():
        raise DataError(f"The data set '{cell.at['data']}' has no items.parquet with texts. Use generator 'factors'.")
    return ItemSource(texts=texts)


def _make_attack(named: str, device: str | None) -> MembershipAttack:
    """The attack of this name; options follow it after colons, as in dlmia:encoder=beta-vae:reweight=false."""
    name, *given = named.split(":")
    constructor = lookup("membership attack", name, MEMBERSHIP_ATTACKS)
    placed = {"device": device} if "device" in {f.name for f in fields(constructor)} else {}  # type: ignore[arg-type]
    return make("membership attack", name, MEMBERSHIP_ATTACKS, **placed, **dict(map(_parse_option, given)))


def _parse_option(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UsageError(f"Cannot read '{text}' in the name of an attack. Write name:option=value.")
    try:
        return name, json.loads(value)
    except json.JSONDecodeError:
        return name, value


def _make_record(cell: Cell, attack: str, target: str, metric: str, estimate: Estimate) -> Record:
    names = (cell.at["data"], cell.label("target"), cell.label("defense"))
    return Record(*names, attack, target, cell.seed, metric, estimate)


def _record_attacks(cell: Cell, found: MembershipAudit, suffix: str) -> list[Record]:
    rows = []
    for name, one in found.attacks.items():
        numbers = {"auc": one.auc, "balanced_accuracy": one.balanced_accuracy, "auc_ahead_of_rules": one.ahead}
        numbers |= {f"tpr@{fpr:g}": None if at is None else at.tpr for fpr, at in one.tpr_at_fpr.items()}
        rows += [_make_record(cell, f"{name}{suffix}", TARGET, m, e) for m, e in numbers.items() if e is not None]
    return rows


def _record_utility(cell: Cell, told: dict[str, Any]) -> list[Record]:
    """How often the item held back is in the list, of members and of others, and what a defense cost the others."""
    after = told.get("after", told)
    numbers = {(who, "hit_rate"): e for who, e in after.items()}
    if "others_lost" in told:
        numbers["others", "hit_rate_change"] = told["others_lost"]
    k = cell.settings["list_length"]
    return [_make_record(cell, "", who, f"{m}@{k}", Estimate.from_dict(e)) for (who, m), e in numbers.items()]
