"""Membership cells: what `attack` gives, models looked up, the static attacker beside the one who knows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from recveil.audits.membership.audit import run_membership_attacks
from recveil.audits.membership.scenarios import ItemSource
from recveil.core.errors import DataError, UsageError
from recveil.studies.cells import run_cell
from recveil.studies.membership_cells import build_world, choose_item_source, measure_membership_cell, parse_attacks
from recveil.studies.plans import Cell, Plan

ALS = {"name": "als", "epochs": 2, "embedding_size": 4}
LFM = {"name": "lfm", "epochs": 2, "embedding_size": 4}


def cell(data: str, **grid: object) -> Cell:
    whole = {"data": [data], "target": [ALS], "shadow": [ALS], "attack": ["rules"], **grid}
    settings = {"device": "cpu", "list_length": 5, "user_minimum": 5}
    [one] = Plan.parse({"title": "t", "kind": "membership", "grid": whole, "settings": settings}, name="p").cells()
    return one


def numbers(one: Cell, cache: Path) -> dict[tuple[str, str, str], Any]:
    records, _, _ = measure_membership_cell(one, cache)
    return {(r.attack, r.target, r.metric): r.estimate for r in records}


def test_a_cell_is_the_game_played_by_hand(tiny: str, tmp_path: Path) -> None:
    one = cell(tiny, serving=["popular"], seed=[2])
    found = numbers(one, tmp_path / "a")
    stage = build_world(one, tmp_path / "b").build(ItemSource(), vectors=False, seed=2, device="cpu")
    audit = run_membership_attacks(stage.game, {}, seed=2, jointly=False)
    assert {a for a, _, m in found if m == "auc"} == set(audit.attacks)
    for name, rule in audit.attacks.items():
        assert found[name, "membership", "auc"] == rule.auc
    assert ("", "members", "hit_rate@5") in found
    assert json.dumps(run_cell(one, tmp_path / "a").content) == json.dumps(run_cell(one, tmp_path / "b").content)


def test_models_are_trained_once_for_all_cells_of_a_heat_map(tiny: str, tmp_path: Path) -> None:
    for target in (ALS, LFM):
        for shadow in (ALS, LFM):
            measure_membership_cell(cell(tiny, target=[target], shadow=[shadow], serving=["popular"]), tmp_path)
    measure_membership_cell(cell(tiny, serving=["fold-in"]), tmp_path)
    assert len(list(tmp_path.glob("*/model.json"))) == 4  # two models on two sides; serving trains nothing


def test_a_defense_adds_the_attacker_who_does_not_know_and_the_cost(tiny: str, tmp_path: Path) -> None:
    defense = {"name": "popularity", "pool": 20}
    found = numbers(cell(tiny, serving=["popular"], defense=[defense]), tmp_path)
    assert ("any-overlap, static", "membership", "auc") in found
    assert ("", "others", "hit_rate_change@5") in found


def test_attacks_by_name_with_options(tiny: str) -> None:
    assert parse_attacks(cell(tiny, attack=["rules"])) == {}
    made = parse_attacks(cell(tiny, attack=["biased,dlmia:encoder=beta-vae:reweight=false"]))
    assert made["dlmia:encoder=beta-vae:reweight=false"].encoder == "beta-vae"  # type: ignore[attr-defined]
    assert made["dlmia:encoder=beta-vae:reweight=false"].reweight is False  # type: ignore[attr-defined]
    with pytest.raises(UsageError, match="No membership attack is called 'bised'. Did you mean 'biased'"):
        parse_attacks(cell(tiny, attack=["bised"]))
    with pytest.raises(UsageError, match="Write name:option=value"):
        parse_attacks(cell(tiny, attack=["dlmia:encoder"]))


def test_item_vectors_come_from_factors_or_from_texts(tiny: str) -> None:
    assert choose_item_source(cell(tiny)) == ItemSource()
    with pytest.raises(DataError, match="has no items.parquet"):
        choose_item_source(cell("demo", generator=["texts"]))
    with pytest.raises(UsageError, match="No generator of item vectors is called 'text'. Did you mean 'texts'"):
        choose_item_source(cell(tiny, generator=["text"]))


def test_options_of_an_attack_follow_its_name() -> None:
    from recveil.studies.membership_cells import parse_attacks
    from recveil.studies.plans import Plan

    def made(named: str):
        grid = {"data": ["demo"], "target": ["als"], "shadow": ["als"], "attack": [named]}
        return parse_attacks(Plan.parse({"title": "t", "kind": "membership", "grid": grid}, name="p").cells()[0])

    attacks = made("dlmia,dlmia:encoder=beta-vae:reweight=false")
    assert list(attacks) == ["dlmia", "dlmia:encoder=beta-vae:reweight=false"]
    plain, other = attacks.values()
    assert (plain.encoder, plain.reweight) == ("dual", True)
    assert (other.encoder, other.reweight) == ("beta-vae", False)
    with pytest.raises(UsageError, match="Write name:option=value"):
        made("dlmia:encoder")
    with pytest.raises(UsageError, match="Did you mean 'encoder'"):
        made("dlmia:encodr=dual")
