"""A cell that attacks attributes says what the audit and the ranking say when they are called directly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from recveil.attacks.attribute.panels import parse_attackers
from recveil.audits.attribute.audit import audit_attribute
from recveil.audits.attribute.folds import CrossValidation
from recveil.core.errors import DataError, UsageError
from recveil.core.random import make_generator
from recveil.core.types import UNDISCLOSED, Attribute
from recveil.metrics.ranking import collect_seen_items, estimate_mean, ndcg, rank
from recveil.models import MODELS
from recveil.studies import attribute_cells
from recveil.studies.attribute_cells import (
    estimate_change,
    load_split,
    make_folds,
    measure_attribute_cell,
    select_cell_targets,
    select_spared_users,
)
from recveil.studies.cell_results import Measurement
from recveil.studies.cells import Cell
from recveil.studies.rank_codec import pack_ranks, unpack_ranks

MakeCell = Callable[..., Cell]


def index_records(measurement: Measurement) -> dict[tuple[str, str, str], Any]:
    numbers = {(r.attack, r.target, r.metric): r.estimate for r in measurement.records}
    assert len(numbers) == len(measurement.records)
    return numbers


def count_models(cache: Path) -> int:
    return len(list(cache.glob("*/model.json")))


def test_an_undefended_cell_is_the_audit_and_the_ranking_of_its_model(make_cell: MakeCell, tmp_path: Path) -> None:
    cell = make_cell(seed=[3], panel=["logistic,qda"])
    measured = measure_attribute_cell(cell, tmp_path)
    numbers, split = index_records(measured), load_split(cell.data)
    model = MODELS.make("bprmf", epochs=2, embedding_size=8, device="cpu").fit(split, rng=make_generator(3, "train"))
    attackers = parse_attackers("logistic,qda", "cpu")
    gender = split.train.attributes["gender"]
    audit = audit_attribute(model.user_vectors_, gender, attackers, rules=CrossValidation(5, 1), seed=3)
    advantage, auc = audit.headline.advantage.value, audit.attacks["qda"].auc.value
    assert numbers["headline", "gender", "advantage"].value == pytest.approx(advantage, abs=1e-6)
    assert numbers["qda", "gender", "auc"].value == pytest.approx(auc, abs=1e-6)
    assert measured.details.targets["gender"].folds == pytest.approx(audit.fold_advantages.tolist(), abs=1e-6)
    ranks = rank(model.score, split.test, collect_seen_items(split.train, split.valid))
    assert numbers["", "gender", "ndcg@10"] == estimate_mean(ndcg(ranks, 10))
    assert measured.details.ranks == measured.details.base == pack_ranks(ranks)
    metrics = {metric for attack, _, metric in numbers if attack == ""}
    assert metrics >= {"hit_rate@5", "ndcg@5", "ndcg@10 of F", "ndcg@10 of M"}
    assert not [metric for metric in metrics if metric.startswith(("ndcg_change", "displacement"))]


@pytest.mark.thorough
def test_a_defense_after_training_is_compared_and_both_tables_are_attacked(make_cell: MakeCell, tmp_path: Path) -> None:
    measured = measure_attribute_cell(make_cell(defense=["leace"]), tmp_path)
    defended, plain = index_records(measured), index_records(measure_attribute_cell(make_cell(), tmp_path))
    assert plain["headline", "gender", "advantage"].low > 0  # there is something to hide
    assert defended["logistic", "gender", "auc"].value < plain["logistic", "gender", "auc"].value
    assert defended["two-releases", "gender", "advantage"].value > 0
    assert defended["", "gender", "displacement"].value > 0
    assert ("two-releases", "gender", "advantage") not in plain
    before, after = (ndcg(unpack_ranks(text), 10) for text in (measured.details.base, measured.details.ranks))
    change = defended["", "gender", "ndcg_change@10"].value
    assert change == pytest.approx(100 * (after.mean() / before.mean() - 1), abs=1e-6)
    assert count_models(tmp_path) == 1  # one training for both cells


@pytest.mark.thorough
@pytest.mark.parametrize("defense", ["adversarial", "blurme"])
def test_defenses_of_training_and_data_train_once_more(defense: str, make_cell: MakeCell, tmp_path: Path) -> None:
    numbers = index_records(measure_attribute_cell(make_cell(defense=[defense]), tmp_path))
    assert ("", "gender", "ndcg_change@10") in numbers
    assert ("two-releases", "gender", "advantage") not in numbers
    assert count_models(tmp_path) == 2
    measure_attribute_cell(make_cell(defense=[defense], panel=["lda"]), tmp_path)
    assert count_models(tmp_path) == 2  # a new attacker trains nothing
    measure_attribute_cell(make_cell(defense=[defense], target=["handedness"]), tmp_path)
    assert count_models(tmp_path) == 3  # another attribute, another training


def test_targets_together_are_attacked_each_and_jointly_without_the_spared_users(
    make_cell: MakeCell, tmp_path: Path
) -> None:
    cell = make_cell(settings={"unattacked": 0.2}, target=["gender+handedness"])
    numbers = index_records(measure_attribute_cell(cell, tmp_path))
    attacked = {target: e.n for (attack, target, metric), e in numbers.items() if attack == "headline"}
    assert attacked == {"gender": 120, "handedness": 120, "gender & handedness": 120}
    apart = make_cell(settings={"unattacked": 0.2, "joint": False}, target=["gender+handedness"])
    assert {record.target for record in measure_attribute_cell(apart, tmp_path).records if record.attack} == {
        "gender",
        "handedness",
    }
    assert numbers["", "gender+handedness", "ndcg@5"].n == 150
    assert sorted(select_spared_users(150, 0.2)) == sorted(np.random.default_rng(2026).permutation(150)[:30])
    assert len(select_spared_users(150, 0.0)) == 0


def test_other_surfaces_and_leak_ratios(make_cell: MakeCell, tmp_path: Path) -> None:
    cell = make_cell(surface=["lists"], leak_ratio=[0.3], model=["itemknn"])
    assert index_records(measure_attribute_cell(cell, tmp_path))["headline", "gender", "advantage"].n == 150
    assert make_folds(cell).leak_ratio == 0.3
    assert make_folds(make_cell()).leak_ratio is None  # all users who are not attacked are known
    with pytest.raises(UsageError, match="leak ratio of 0.9"):
        make_folds(make_cell(leak_ratio=[0.9]))
    with pytest.raises(UsageError, match="has no user vectors"):
        measure_attribute_cell(make_cell(model=["itemknn"]), tmp_path)


@pytest.mark.thorough
def test_a_number_is_attacked_by_regression(
    make_cell: MakeCell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    split = load_split(make_cell().data)
    gender = split.train.attributes["gender"]
    values = gender.codes + make_generator(0, "noise").normal(0, 0.3, len(gender.codes))
    height = Attribute("height", np.full(150, UNDISCLOSED), (), values)
    parts = {part: replace(getattr(split, part), attributes={"height": height}) for part in ("train", "valid", "test")}
    monkeypatch.setattr(attribute_cells, "load_split", lambda data, protocol: replace(split, **parts))
    measured = measure_attribute_cell(make_cell(target=["height"]), tmp_path)
    assert {r.metric for r in measured.records if r.attack == "headline"} == {"advantage", "r2", "correlation"}
    assert len(measured.details.targets["height"].folds) == 5
    with pytest.raises(DataError, match="is a number"):
        select_cell_targets({"height": height}, make_cell(target=["height"], defense=["gaussian"]))


def test_classes_of_one_user_are_merged(make_cell: MakeCell) -> None:
    job = Attribute("job", np.array([0, 0, 1, 1, 2, 3]), ("cook", "nurse", "pilot", "smith"))
    [target] = select_cell_targets({"job": job}, make_cell(target=["job"], defense=["gaussian"]))
    assert target.counts.tolist() == [2, 2, 2]


def test_change_is_in_per_cent_of_before() -> None:
    assert estimate_change(np.array([1.0, 3.0]), np.array([1.0, 2.0])).value == pytest.approx(-25.0)
