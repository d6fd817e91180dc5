"""A whole training: every model from a file and back from disk, every defense with what is left and what it cost."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from recveil.core.errors import DataError, UsageError
from recveil.core.results import TrainResult
from recveil.data.io.user_tables import read_embeddings
from recveil.data.sources.catalog import load_dataset_or_demo
from recveil.data.splits import leave_one_out
from recveil.defenses import DEFENSES
from recveil.metrics.ranking import evaluate
from recveil.models import MODELS
from recveil.models.persistence import load_model
from recveil.workflows.audit_protocol import AuditProtocol
from recveil.workflows.defended_release import ChosenDefense
from recveil.workflows.train import GUARANTEE_LOST, TrainRequest, train_dataset, train_run

QUICK_MODELS: dict[str, dict[str, object]] = {
    "als": {"epochs": 1},
    "bert4rec": {"epochs": 1, "hidden_size": 8, "max_length": 5},
    "caser": {"epochs": 1, "embedding_size": 4},
    "dp-als": {"epsilon": 1e5, "noise_seed": 0},
    "dp-cov": {"epsilon": 1e5, "noise_seed": 0},
    "gru4rec": {"epochs": 1, "hidden_size": 8, "max_length": 5},
    "itemknn": {},
    "puresvd": {"embedding_size": 8},
}
QUICK_DEFENSES = {"raid": {"atoms": 50}, "adversarial": {"discriminators": 2, "steps": 5}}


@pytest.fixture(autouse=True)
def one_attacker(monkeypatch: pytest.MonkeyPatch, quick: AuditProtocol) -> None:
    """Which panel attacks a run is not what is tested here."""
    monkeypatch.setattr("recveil.workflows.train.AuditProtocol", lambda **rules: replace(quick, panel="logistic"))


@pytest.fixture
def small(request_small: TrainRequest) -> TrainRequest:
    return replace(request_small, options={"epochs": 2, "embedding_size": 8})


def defend(request: TrainRequest, name: str, **options: object) -> TrainRequest:
    return replace(request, defense=ChosenDefense(name, options), targets=["gender"])


def test_a_run_holds_all_that_an_audit_needs(trained_run: Path, request_small: TrainRequest, data_folder: Path) -> None:
    data = load_dataset_or_demo(str(data_folder), seed=0)
    assert read_embeddings(trained_run / "users.parquet").x.shape == (data.n_users, 8)
    assert read_embeddings(trained_run / "items.parquet", owner="item").x.shape == (data.n_items, 8)
    assert pq.read_table(trained_run / "recommendations.parquet").num_rows == data.n_users * 10
    assert set(pq.read_table(trained_run / "attributes.parquet").column_names) == {"user_id", *data.attributes}
    result = TrainResult.read_json(trained_run / "metrics.json")
    assert result.utility.after["ndcg@10"].n == data.n_users
    assert (result.targets, result.timings, result.command_line) == ({}, {}, [])  # equal bytes from run to run
    config = json.loads((trained_run / "config.json").read_text())
    assert {**config, "data": data_folder.name} == result.config.model_dump(mode="json")  # results hold no path
    assert (config["data"], config["model"], config["options"]["epochs"]) == (str(data_folder), "bprmf", 10)


@pytest.mark.thorough
def test_a_defended_run_releases_the_cloaked_vectors_and_compares_with_the_same_model_without_it(
    small: TrainRequest, tmp_path: Path
) -> None:
    plain = train_run(small, tmp_path / "new" / "plain")
    results = {}
    for name, options in (("gaussian", {}), ("blurme", {"share": 0.5})):
        results[name] = train_run(defend(small, name, **options), tmp_path / name)
        assert results[name].utility.before["ndcg@10"] == plain.utility.after["ndcg@10"]
        assert results[name].utility.after["ndcg@10"] != plain.utility.after["ndcg@10"]
        change = results[name].utility.after["ndcg@10"].value - plain.utility.after["ndcg@10"].value
        assert results[name].utility.difference["ndcg@10"].value == pytest.approx(change)
    vectors = [read_embeddings(tmp_path / run / "users.parquet").x for run in ("new/plain", "gaussian")]
    assert not np.allclose(*vectors)
    model = load_model(tmp_path / "gaussian" / "model")
    assert np.array_equal(model.user_vectors_, vectors[1])  # nothing undefended is left
    assert results["gaussian"].config.defense.displacement > 0
    assert results["blurme"].config.defense.options == {"share": 0.5}


@pytest.mark.thorough
@pytest.mark.parametrize("name", [t.name for t in DEFENSES.all_traits() if t.place in ("data", "training")])
def test_a_run_with_any_defense_tells_what_is_left_and_what_it_cost(name: str, small: TrainRequest) -> None:
    request = defend(replace(small, options={"epochs": 1, "embedding_size": 4}), name, **QUICK_DEFENSES.get(name, {}))
    result, _ = train_dataset(load_dataset_or_demo(small.data, seed=0), request)
    assert {*result.before, *result.targets} == {"gender"}
    assert result.utility.difference["ndcg@10"].n == result.utility.before["ndcg@10"].n
    assert result.config.defense.name == name
    assert {"train undefended", "train"} <= set(result.timings)


@pytest.fixture(scope="module")
def interactions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small file in the form people have: user_id, item_id, timestamp."""
    rng = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("data") / "log.csv"
    rows = {(int(u), int(i)) for u, i in rng.integers((40, 30), size=(500, 2))}
    lines = [f"u{u},i{i},{t}" for t, (u, i) in enumerate(sorted(rows, key=hash))]
    path.write_text("user_id,item_id,timestamp\n" + "\n".join(lines) + "\n")
    return path


@pytest.mark.thorough
@pytest.mark.parametrize("name", list(MODELS))
def test_every_model_trains_from_a_file_and_comes_back_from_disk(name: str, interactions: Path, tmp_path: Path) -> None:
    options = QUICK_MODELS.get(name, {"epochs": 1})
    result = train_run(TrainRequest(str(interactions), name, options, k=5, device="cpu"), tmp_path / "run")
    model = load_model(tmp_path / "run" / "model")
    split = leave_one_out(load_dataset_or_demo(str(interactions), seed=0))
    measured = evaluate(model.score, split, ks=(10,))["ndcg@10"].value
    assert measured == pytest.approx(result.utility.after["ndcg@10"].value, abs=1e-6)
    lists = pq.read_table(tmp_path / "run" / "recommendations.parquet")
    assert lists["rank"].to_pylist()[:5] == [1, 2, 3, 4, 5]
    has_vectors = MODELS.traits(name).has_user_vectors
    assert (tmp_path / "run" / "users.parquet").exists() == has_vectors


def test_requests_that_cannot_work_are_refused_before_the_work(small: TrainRequest, tmp_path: Path) -> None:
    (tmp_path / "tiny.csv").write_text("user_id,item_id\n1,1\n1,2\n2,1\n")
    lists, no_target = defend(small, "popularity"), replace(defend(small, "gaussian"), targets=[])
    unknown = replace(defend(small, "gaussian"), targets=["gendr"])
    without_vectors = defend(replace(small, model="itemknn", options={}), "gaussian")
    for request, error, reason in (
        (no_target, UsageError, "`target`"),
        (unknown, UsageError, "Did you mean 'gender'"),
        (lists, UsageError, "recveil membership"),
        (without_vectors, UsageError, "no user vectors"),
        (replace(small, model="lightgnc"), UsageError, "Did you mean 'lightgcn'"),
        (replace(small, data=str(tmp_path / "tiny.csv")), DataError, "3"),
        *(
            (defend(replace(small, model=m, options={}), "raid"), UsageError, "penalty|training")
            for m in ("als", "itemknn", "puresvd")
        ),
    ):
        with pytest.raises(error, match=reason):
            train_run(request, tmp_path / "run")
        assert not (tmp_path / "run").exists()


def test_undisclosed_users_are_counted_in_the_notes(small: TrainRequest) -> None:
    data = load_dataset_or_demo(small.data, seed=0)
    gender = data.attributes["gender"]
    hidden = replace(gender, codes=np.where(np.arange(data.n_users) % 4, gender.codes, -1))
    result, _ = train_dataset(replace(data, attributes={"gender": hidden}), defend(small, "gaussian"))
    assert any("125 users with undisclosed gender" in note for note in result.config.defense.notes)
    assert result.targets["gender"].n_undisclosed == 125


def test_a_model_with_a_guarantee_states_it_and_names_no_other_item(interactions: Path, tmp_path: Path) -> None:
    lines = interactions.read_text() + "u0,only-u0,999\n"
    path = tmp_path / "named.csv"
    path.write_text(
        lines + "".join(f"u0,i{i},{1_000 + i}\n" for i in (98, 99))
    )  # three items of one user, two held out
    request = TrainRequest(str(path), "dp-cov", {"epsilon": 1e5}, k=50, device="cpu")
    result = train_run(request, tmp_path / "run")
    written = json.loads((tmp_path / "run" / "privacy.json").read_text())
    assert result.privacy is not None
    assert written == result.privacy.model_dump(mode="json")
    assert (written["epsilon"], written["noise_is_secret"], written["noise_seeded_by"]) == (
        1e5,
        True,
        "operating system",
    )
    assert any("give that user away: 1." in note for note in result.warnings)
    named, listed = (
        {*pq.read_table(tmp_path / "run" / f"{name}.parquet")["item_id"].to_pylist()}
        for name in ("items", "recommendations")
    )
    assert "only-u0" not in named
    assert listed <= named
    train_run(replace(request, model="itemknn", options={}), tmp_path / "plain")
    assert not (tmp_path / "plain" / "privacy.json").exists()


def test_a_defense_that_learns_from_users_ends_the_guarantee(small: TrainRequest) -> None:
    request = replace(small, model="dp-cov", options={"epsilon": 1e4, "noise_seed": 0})
    data = load_dataset_or_demo(small.data, seed=0)
    alone, defended = (train_dataset(data, each)[0] for each in (request, defend(request, "gaussian")))
    assert alone.privacy is not None
    assert "NOT secret" in alone.privacy.sentence
    assert defended.privacy is None
    assert GUARANTEE_LOST in defended.warnings
    assert GUARANTEE_LOST not in alone.warnings
