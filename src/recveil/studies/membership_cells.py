"""A cell that attacks membership: target and shadow are trained or looked up, served, and attacked beside the rules."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from recveil.attacks.membership import MEMBERSHIP_ATTACKS
from recveil.audits.membership.audit import MembershipAudit, run_membership_attacks
from recveil.audits.membership.demonstrations import check_mistake, write_warning
from recveil.audits.membership.game import MembershipGame
from recveil.audits.membership.item_source import ItemSource
from recveil.audits.membership.platforms import ServingPolicy
from recveil.audits.membership.scenarios import MethodConfig, TrainedScenario
from recveil.core.errors import DataError, UsageError, unknown_name
from recveil.core.json_files import parse_json
from recveil.core.membership_parts import MembershipAttackResult, MembershipUtility
from recveil.core.protocols import MembershipAttack, Recommender
from recveil.core.timing import Clock
from recveil.core.types import Estimate, Record
from recveil.data.sources.catalog import locate_files
from recveil.studies.cell_results import Measurement, MembershipDetails, StoredAttack, StoredRate
from recveil.studies.cells import Cell, MethodChoice
from recveil.studies.model_cache import cache_model

__all__ = ["GENERATORS", "build_scenario", "choose_item_source", "measure_membership_cell", "parse_attacks"]

GENERATORS = ("factors", "texts")
"""Where item vectors come from: factors of other users' histories, or hashed texts in items.parquet of the data."""

TARGET = "membership"
EXPLAINED = "explained by the serving rule"


def measure_membership_cell(cell: Cell, cache: Path) -> Measurement:
    """Measure what attacks and rules reach; with a defense also an attacker who does not know of it.

    Args:
        cell: the cell.
        cache: folder of trained models.
    """
    clock, scenario, mistake = Clock(), build_scenario(cell, cache), cell.rules.demonstrate
    check_mistake(mistake)
    with_vectors = bool(parse_attacks(cell))
    with clock.measure_step("make the game"):
        prepared = scenario.build(
            choose_item_source(cell), with_item_vectors=with_vectors, seed=cell.seed, device=cell.device
        )
    assert prepared.utility is not None
    with clock.measure_step("attack"):
        audit = _run_attacks(cell, prepared.game)
    records = [*_record_utility(cell, prepared.utility), *_record_attacks(cell, audit)]
    details = {
        "about": prepared.input.model_dump(mode="json"),
        "notes": [*([write_warning(mistake)] if mistake else []), *prepared.notes, *prepared.game.notes],
        "attacks": _summarize_attacks(audit),
        "n": len(audit.users),
        "members": None if audit.truth is None else int(audit.truth.sum()),
    }
    if prepared.static is not None:
        with clock.measure_step("attack, static"):
            static = _run_attacks(cell, prepared.static)
        records += _record_attacks(cell, static, ", static")
        details["static_attacks"] = _summarize_attacks(static)
    return Measurement(records, MembershipDetails.model_validate(details), clock.seconds)


def build_scenario(cell: Cell, cache: Path) -> TrainedScenario:
    """Build the scenario of a cell; trained models are looked up in the cache first."""

    def wrap_model(name: str, model: Recommender) -> Recommender:
        return cache_model(model, name, cache)

    defense = cell.choice("defense")
    return TrainedScenario(
        data=cell.data,
        target=_to_config(cell.choice("target")),
        shadow=_to_config(cell.choice("shadow")),
        policy=ServingPolicy(cell.at["serving"], cell.rules.seen, cell.rules.list_length),
        user_minimum=cell.rules.user_minimum or None,
        shadow_data=cell.at.get("shadow_data") or None,
        defense=None if defense.is_undefended else _to_config(defense),
        wrap_model=wrap_model,
    )


def parse_attacks(cell: Cell) -> dict[str, MembershipAttack]:
    """Make the attacks that the cell names between commas; the rules need no naming."""
    names = [name.strip() for name in cell.at["attack"].split(",")]
    return {name: _make_attack(name, cell.device) for name in names if name not in ("", "rules")}


def choose_item_source(cell: Cell) -> ItemSource:
    """Choose what the attacker knows of the items."""
    if cell.at["generator"] not in GENERATORS:
        raise unknown_name("generator of item vectors", cell.at["generator"], GENERATORS)
    if cell.at["generator"] == "factors":
        return ItemSource()
    folder = locate_files(cell.data)
    texts = None if folder is None else folder / "items.parquet"
    if texts is None or not texts.is_file():
        raise DataError(f"The data set '{cell.data}' has no items.parquet with texts. Use generator 'factors'.")
    return ItemSource(texts=texts)


def _to_config(choice: MethodChoice) -> MethodConfig:
    return MethodConfig(choice.name, choice.options)


def _make_attack(text: str, device: str | None) -> MembershipAttack:
    """Make the attack of this name; options follow it after colons, as in name:encoder=beta-vae:reweight=false."""
    name, *options = text.split(":")
    if MEMBERSHIP_ATTACKS.traits(name).needs_references:
        raise UsageError(f"'{name}' compares with reference models, which studies do not train. Name another attack.")
    attack: MembershipAttack = MEMBERSHIP_ATTACKS.make(name, device=device, **dict(map(_parse_option, options)))
    return attack


def _parse_option(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UsageError(f"Cannot read '{text}' in the name of an attack. Write name:option=value.")
    try:
        return name, parse_json(value)
    except ValueError:
        return name, value


def _run_attacks(cell: Cell, game: MembershipGame) -> MembershipAudit:
    mistake = cell.rules.demonstrate
    return run_membership_attacks(game, parse_attacks(cell), seed=cell.seed, jointly=False, demonstrate=mistake)


def _make_record(cell: Cell, attack: str, target: str, metric: str, estimate: Estimate) -> Record:
    names = (cell.data, cell.label("target"), cell.label("defense"))
    return Record(*names, attack, target, cell.seed, metric, estimate)


def _record_attacks(cell: Cell, audit: MembershipAudit, suffix: str = "") -> list[Record]:
    records = []
    for name, result in audit.attacks.items():
        rates = {f"tpr@{fpr}": point for fpr, point in result.tpr_at_fpr.items() if point is not None}
        numbers: Mapping[str, Estimate | None] = {
            "auc": result.auc,
            "balanced_accuracy": result.balanced_accuracy,
            "auc_ahead_of_rules": result.ahead_of_rules,
            **{metric: Estimate(rate.value, rate.low, rate.high, rate.n) for metric, rate in rates.items()},
        }
        for metric, estimate in numbers.items():
            if estimate is not None:
                records.append(_make_record(cell, f"{name}{suffix}", TARGET, metric, estimate))
    return records


def _record_utility(cell: Cell, utility: MembershipUtility) -> list[Record]:
    """Record how often the held-out item is in the list, and what a defense cost the non-members ("others")."""
    k = cell.rules.list_length
    records = [
        _make_record(cell, "", "members", f"hit_rate@{k}", utility.after.members),
        _make_record(cell, "", "others", f"hit_rate@{k}", utility.after.non_members),
    ]
    if utility.non_member_change is not None:
        records.append(_make_record(cell, "", "others", f"hit_rate_change@{k}", utility.non_member_change))
    return records


def _summarize_attacks(audit: MembershipAudit) -> dict[str, StoredAttack]:
    return {name: _summarize_attack(result) for name, result in audit.attacks.items()}


def _summarize_attack(result: MembershipAttackResult) -> StoredAttack:
    rates = {
        fpr: None if point is None else StoredRate(**dict(point), fpr=float(fpr))
        for fpr, point in result.tpr_at_fpr.items()
    }
    return StoredAttack(
        auc=result.auc,
        tpr_at_fpr=rates,
        balanced_accuracy=result.balanced_accuracy,
        threshold=result.threshold,
        rule=result.is_rule,
        inverted=result.inverted,
        ahead_of_rules=result.ahead_of_rules,
        explained=EXPLAINED if result.explained_by_rule else "",
    )
