"""What a cell says of attributes is what the audit and the ranking say when they are called by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from recveil.audits.attribute.audit import audit_attribute
from recveil.audits.attribute.folds import CrossValidation
from recveil.audits.catalog import ATTACKS, MODELS
from recveil.core.errors import DataError, UsageError
from recveil.core.random import generator
from recveil.core.types import UNKNOWN, Attribute
from recveil.metrics.ranking import mean, ndcg, rank, seen_items
from recveil.studies import attribute_cells as attribute
from recveil.studies.attribute_cells import (
    attackers,
    estimate_change,
    load_split,
    make_folds,
    measure_attribute_cell,
    select_cell_targets,
    select_spared_users,
)
from recveil.studies.plans import Cell, Plan
from recveil.studies.rank_codec import pack_ranks, unpack_ranks

MODEL = {"name": "bprmf", "epochs": 3, "embedding_size": 8}


def cell(data: str, settings: dict[str, Any] | None = None, **grid: object) -> Cell:
    whole = {"data": [data], "model": [MODEL], "target": ["gender"], "panel": ["logistic,qda"], **grid}
    given = {"device": "cpu", "folds": 5, "k": [5, 10], **(settings or {})}
    [one] = Plan.parse({"title": "t", "kind": "attribute", "grid": whole, "settings": given}, name="p").cells()
    return one


def numbers(one: Cell, cache: Path) -> dict[tuple[str, str, str], Any]:
    records, _, _ = measure_attribute_cell(one, cache)
    assert len({(r.attack, r.target, r.metric) for r in records}) == len(records)
    return {(r.attack, r.target, r.metric): r.estimate for r in records}


def test_an_undefended_cell_is_the_audit_and_the_ranking_of_its_model(tiny: str, tmp_path: Path) -> None:
    records, details, _ = measure_attribute_cell(cell(tiny, seed=[3]), tmp_path)
    split = load_split(tiny)
    model = MODELS["bprmf"](epochs=3, embedding_size=8, device="cpu").fit(split, rng=generator(3, "train"))
    panel = {name: ATTACKS[name]("cpu") for name in ("logistic", "qda")}
    gender = split.train.attributes["gender"]
    found = audit_attribute(model.user_vectors_, gender, panel, rules=CrossValidation(5, 1), seed=3)
    by_name = {(r.attack, r.metric): r.estimate for r in records}
    assert by_name["headline", "advantage"].value == pytest.approx(found.headline.advantage.value, abs=1e-6)
    assert by_name["qda", "auc"].value == pytest.approx(found.attacks["qda"].auc.value, abs=1e-6)
    assert details["targets"]["gender"]["folds"] == pytest.approx(found.folds.tolist(), abs=1e-6)
    ranks = rank(model.score, split.test, seen_items(split.train, split.valid))
    assert by_name["", "ndcg@10"] == mean(ndcg(ranks, 10))
    assert details["ranks"] == details["base"] == pack_ranks(ranks)
    assert not [r for r in records if r.metric.startswith(("ndcg_change", "displacement"))]
    assert {r.metric for r in records if r.attack == ""} >= {"hit_rate@5", "ndcg@5", "ndcg@10 of F", "ndcg@10 of M"}


def test_a_post_training_defense_is_compared_and_both_tables_are_attacked(tiny: str, tmp_path: Path) -> None:
    found = numbers(cell(tiny, defense=["leace"]), tmp_path)
    plain = numbers(cell(tiny), tmp_path)
    assert plain["headline", "gender", "advantage"].low > 0  # there is something to hide
    assert found["logistic", "gender", "auc"].value < plain["logistic", "gender", "auc"].value
    assert found["two-releases", "gender", "advantage"].value > 0
    assert found["", "gender", "displacement"].value > 0
    assert ("two-releases", "gender", "advantage") not in plain
    records, details, _ = measure_attribute_cell(cell(tiny, defense=["leace"]), tmp_path)
    before, after = (ndcg(unpack_ranks(details[key]), 10) for key in ("base", "ranks"))
    [told] = [r.estimate for r in records if r.metric == "ndcg_change@10"]
    assert told.value == pytest.approx(100 * (after.mean() / before.mean() - 1), abs=1e-6)
    assert len(list(tmp_path.glob("*/model.json"))) == 1  # one training for all three cells


@pytest.mark.parametrize("defense", ["adversarial", "blurme"])
def test_defenses_of_training_and_data_train_once_more(defense: str, tiny: str, tmp_path: Path) -> None:
    found = numbers(cell(tiny, defense=[defense]), tmp_path)
    assert ("", "gender", "ndcg_change@10") in found
    assert ("two-releases", "gender", "advantage") not in found
    assert len(list(tmp_path.glob("*/model.json"))) == 2
    measure_attribute_cell(cell(tiny, defense=[defense], panel=["lda"]), tmp_path)
    assert len(list(tmp_path.glob("*/model.json"))) == 2  # a new attacker trains nothing
    measure_attribute_cell(cell(tiny, defense=[defense], target=["handedness"]), tmp_path)
    assert len(list(tmp_path.glob("*/model.json"))) == 3  # another secret, another training


def test_targets_together_are_attacked_each_and_jointly(tiny: str, tmp_path: Path) -> None:
    found = numbers(cell(tiny, target=["gender+handedness"]), tmp_path)
    headline = {target for attack, target, metric in found if attack == "headline"}
    assert headline == {"gender", "handedness", "gender & handedness"}
    assert ("", "gender+handedness", "ndcg@5") in found


def test_other_surfaces_and_leak_ratios(tiny: str, tmp_path: Path) -> None:
    found = numbers(cell(tiny, surface=["lists"], leak_ratio=[0.3], model=["itemknn"]), tmp_path)
    assert found["headline", "gender", "advantage"].n == 150
    assert make_folds(cell(tiny, leak_ratio=[0.3])).leak_ratio == 0.3
    assert make_folds(cell(tiny, {"folds": 5})).leak_ratio is None
    with pytest.raises(UsageError, match="leak ratio of 0.9"):
        make_folds(cell(tiny, leak_ratio=[0.9]))


def test_spared_users_are_not_attacked(tiny: str, tmp_path: Path) -> None:
    found = numbers(cell(tiny, {"unattacked": 0.2}), tmp_path)
    assert found["headline", "gender", "advantage"].n == 120
    assert found["", "gender", "ndcg@10"].n == 150
    assert sorted(select_spared_users(150, 0.2)) == sorted(np.random.default_rng(2026).permutation(150)[:30])
    assert len(select_spared_users(150, 0.0)) == 0


def test_a_number_is_attacked_by_regression(tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    split = load_split(tiny)
    gender = split.train.attributes["gender"]
    values = gender.codes + generator(0, "noise").normal(0, 0.3, len(gender.codes))
    height = Attribute("height", np.full(150, UNKNOWN), (), values)
    parts = {part: replace(getattr(split, part), attributes={"height": height}) for part in ("train", "valid", "test")}
    monkeypatch.setattr(attribute, "split_of", lambda data: replace(split, **parts))
    records, details, _ = measure_attribute_cell(cell(tiny, target=["height"]), tmp_path)
    assert {r.metric for r in records if r.attack == "headline"} == {"advantage", "r2", "correlation"}
    assert len(details["targets"]["height"]["folds"]) == 5
    with pytest.raises(DataError, match="is a number"):
        select_cell_targets({"height": height}, cell(tiny, target=["height"], defense=["gaussian"]))


def test_classes_of_one_user_are_made_one_class(tiny: str) -> None:
    job = Attribute("job", np.array([0, 0, 1, 1, 2, 3]), ("cook", "nurse", "pilot", "smith"))
    [target] = select_cell_targets({"job": job}, cell(tiny, target=["job"], defense=["gaussian"]))
    assert target.counts.tolist() == [2, 2, 2]


def test_attackers_by_panel_or_by_name() -> None:
    assert list(attackers("fast", "cpu"))[0] == "logistic"
    assert list(attackers("qda, knn", "cpu")) == ["qda", "knn"]
    with pytest.raises(UsageError, match="No panel or attacker is called 'fas'. Did you mean 'fast'"):
        attackers("fas", "cpu")
    with pytest.raises(UsageError, match="No attacker is called 'logistc'. Did you mean 'logistic'"):
        attackers("qda,logistc", "cpu")


def test_change_is_in_per_cent_of_before() -> None:
    assert estimate_change(np.array([1.0, 3.0]), np.array([1.0, 2.0])).value == pytest.approx(-25.0)
