"""Membership cells: what the attacks give, models looked up, the static attacker beside the one who knows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from recveil.audits.membership.audit import run_membership_attacks
from recveil.audits.membership.item_source import ItemSource
from recveil.core.errors import DataError, UsageError
from recveil.studies.cells import Cell
from recveil.studies.measurement import run_cell
from recveil.studies.membership_cells import (
    build_scenario,
    choose_item_source,
    measure_membership_cell,
    parse_attacks,
)

MakeCell = Callable[..., Cell]
LFM = {"name": "lfm", "epochs": 2, "embedding_size": 4}
ALS = {"name": "als", "epochs": 2, "embedding_size": 4}


def index_records(cell: Cell, cache: Path) -> dict[tuple[str, str, str], Any]:
    return {(r.attack, r.target, r.metric): r.estimate for r in measure_membership_cell(cell, cache).records}


def test_a_cell_is_the_game_played_directly(make_cell: MakeCell, tmp_path: Path) -> None:
    cell = make_cell("membership", serving=["popular"], seed=[2])
    numbers = index_records(cell, tmp_path / "a")
    scenario = build_scenario(cell, tmp_path / "b")
    prepared = scenario.build(ItemSource(), with_item_vectors=False, seed=2, device="cpu")
    audit = run_membership_attacks(prepared.game, {}, seed=2, jointly=False)
    assert {attack for attack, _, metric in numbers if metric == "auc"} == set(audit.attacks)
    for name, rule in audit.attacks.items():
        assert numbers[name, "membership", "auc"] == rule.auc
    assert ("", "members", "hit_rate@5") in numbers
    first, second = (run_cell(cell, tmp_path / folder)[0] for folder in "ab")
    assert first.to_json() == second.to_json()


def test_models_are_trained_once_for_all_cells_of_a_heat_map(make_cell: MakeCell, tmp_path: Path) -> None:
    for target in (ALS, LFM):
        for shadow in (ALS, LFM):
            cell = make_cell("membership", target=[target], shadow=[shadow], serving=["popular"])
            measure_membership_cell(cell, tmp_path)
    measure_membership_cell(make_cell("membership", serving=["fold-in"]), tmp_path)
    assert len(list(tmp_path.glob("*/model.json"))) == 4  # two models on two sides; serving trains nothing


def test_a_defense_adds_the_static_attacker_and_the_cost(make_cell: MakeCell, tmp_path: Path) -> None:
    cell = make_cell("membership", serving=["popular"], defense=[{"name": "popularity", "pool": 20}])
    measured = measure_membership_cell(cell, tmp_path)
    numbers = {(r.attack, r.target, r.metric) for r in measured.records}
    assert ("any-overlap, static", "membership", "auc") in numbers
    assert ("", "others", "hit_rate_change@5") in numbers
    assert measured.details.static_attacks["any-overlap"].rule


def test_attacks_are_made_by_name_with_options(make_cell: MakeCell) -> None:
    def parse(text: str) -> dict[str, Any]:
        return parse_attacks(make_cell("membership", attack=[text]))

    assert parse("rules") == {}
    plain, other = parse("dlmia,dlmia:encoder=beta-vae:reweight=false").values()
    assert (plain.encoder, plain.reweight) == ("dual", True)
    assert (other.encoder, other.reweight) == ("beta-vae", False)
    for text, message in (
        ("bised", "No membership attack is called 'bised'. Did you mean 'biased'"),
        ("dlmia:encoder", "Write name:option=value"),
        ("dlmia:encodr=dual", "Did you mean 'encoder'"),
        ("lira", "reference models"),
    ):
        with pytest.raises(UsageError, match=message):
            parse(text)


def test_item_vectors_come_from_factors_or_from_texts(make_cell: MakeCell) -> None:
    assert choose_item_source(make_cell("membership")) == ItemSource()
    with pytest.raises(DataError, match="has no items.parquet"):
        choose_item_source(make_cell("membership", data=["demo"], generator=["texts"]))
    with pytest.raises(UsageError, match="No generator of item vectors is called 'text'. Did you mean 'texts'"):
        choose_item_source(make_cell("membership", generator=["text"]))
