import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from recveil.audits.catalog import ATTACKS, DATA_DEFENSES, MODELS, TRAINING_DEFENSES
from recveil.core.errors import DataError, UsageError
from recveil.data.io.user_tables import read_embeddings
from recveil.data.splits import leave_one_out
from recveil.metrics.ranking import evaluate
from recveil.models.persistence import load_model
from recveil.workflows.notes import WENT_ON
from recveil.workflows.train import Defense, Plan, load_data, train_run

SMALL: dict[str, dict[str, object]] = {
    "als": {"epochs": 1},
    "bert4rec": {"epochs": 1, "hidden_size": 8, "max_length": 5},
    "caser": {"epochs": 1, "embedding_size": 4},
    "gru4rec": {"epochs": 1, "hidden_size": 8, "max_length": 5},
    "itemknn": {},
    "puresvd": {"embedding_size": 8},
}


@pytest.fixture(autouse=True)
def one_attacker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which panel attacks a run is not what is tested here."""
    monkeypatch.setattr("recveil.workflows.train.panel", lambda *_: {"logistic": ATTACKS["logistic"]("cpu")})


PLAN = Plan("demo", "bprmf", {"epochs": 2, "embedding_size": 8}, k=10, seed=0, device="cpu")


def test_a_run_writes_all_that_the_audit_needs(tmp_path: Path) -> None:
    document = train_run(PLAN, tmp_path / "run")
    folder = tmp_path / "run"
    data = load_data("demo", seed=0)
    assert read_embeddings(folder / "users.parquet").x.shape == (data.n_users, 8)
    assert read_embeddings(folder / "items.parquet", owner="item").x.shape == (data.n_items, 8)
    lists = pq.read_table(folder / "recommendations.parquet")
    assert lists.num_rows == data.n_users * 10
    metrics = json.loads((folder / "metrics.json").read_text())
    assert set(metrics["ndcg@10"]) == {"value", "low", "high", "n"}
    assert metrics["hr@10"] == document["utility"]["hr@10"]
    config = json.loads((folder / "config.json").read_text())
    assert (config["data"], config["model"], config["options"]["epochs"]) == ("demo", "bprmf", 2)
    assert set(pq.read_table(folder / "attributes.parquet").column_names) == {"user_id", *data.attributes}


def test_a_defended_run_releases_the_cloaked_vectors_and_keeps_the_comparison(tmp_path: Path) -> None:
    train_run(PLAN, tmp_path / "plain")
    train_run(PLAN, tmp_path / "cloaked", Defense("gaussian", 1.0, ["gender"]))
    plain, cloaked = (read_embeddings(tmp_path / run / "users.parquet").x for run in ("plain", "cloaked"))
    assert not np.allclose(plain, cloaked)
    assert np.array_equal(
        load_model(tmp_path / "cloaked" / "model").user_vectors_, cloaked
    )  # nothing undefended is left
    metrics = json.loads((tmp_path / "cloaked" / "metrics.json").read_text())
    before = json.loads((tmp_path / "plain" / "metrics.json").read_text())
    assert metrics["undefended"]["ndcg@10"] == before["ndcg@10"]
    change = metrics["ndcg@10"]["value"] - before["ndcg@10"]["value"]
    assert metrics["difference"]["ndcg@10"]["value"] == pytest.approx(change)


def test_a_defense_must_know_its_target(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--target gender"):
        train_run(PLAN, tmp_path / "run", Defense("gaussian", 1.0, []))
    with pytest.raises(UsageError, match="Did you mean 'gender'"):
        train_run(PLAN, tmp_path / "run", Defense("gaussian", 1.0, ["gendr"]))


@pytest.fixture(scope="module")
def interactions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small file in the form people have: user_id, item_id, timestamp."""
    rng = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("data") / "log.csv"
    rows = {(int(u), int(i)) for u, i in rng.integers((40, 30), size=(500, 2))}
    lines = [f"u{u},i{i},{t}" for t, (u, i) in enumerate(sorted(rows, key=hash))]
    path.write_text("user_id,item_id,timestamp\n" + "\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("name", MODELS)
def test_every_model_trains_from_a_file_and_comes_back_from_disk(name: str, interactions: Path, tmp_path: Path) -> None:
    options = SMALL.get(name, {"epochs": 1})
    document = train_run(Plan(str(interactions), name, options, k=5, device="cpu"), tmp_path / "run")
    assert 0 <= document["utility"]["ndcg@10"]["value"] <= 1
    model = load_model(tmp_path / "run" / "model")
    split = leave_one_out(load_data(str(interactions), seed=0))
    found = evaluate(model.score, split, ks=(10,))["ndcg@10"].value
    assert found == pytest.approx(document["utility"]["ndcg@10"]["value"], abs=1e-6)
    lists = pq.read_table(tmp_path / "run" / "recommendations.parquet")
    assert lists["rank"].to_pylist()[:5] == [1, 2, 3, 4, 5]


def test_a_model_without_vectors_refuses_an_embedding_defense(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no user vectors"):
        train_run(Plan("demo", "itemknn", device="cpu"), tmp_path / "run", Defense("gaussian", 1.0, ["gender"]))


def test_a_data_set_too_small_to_split_is_said(tmp_path: Path) -> None:
    (tmp_path / "tiny.csv").write_text("user_id,item_id\n1,1\n1,2\n2,1\n")
    with pytest.raises(DataError, match="3"):
        train_run(Plan(str(tmp_path / "tiny.csv"), "bprmf", device="cpu"), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", [*DATA_DEFENSES, *TRAINING_DEFENSES])
def test_a_run_with_any_defense_says_what_is_left_and_what_it_cost(name: str, tmp_path: Path) -> None:
    few = {"raid-paper": {"atoms": 50}, "adversarial": {"discriminators": 2, "steps": 5}}
    document = train_run(PLAN, tmp_path / "run", Defense(name, 1.0, ["gender"], few.get(name, {})))
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    for when in ("before", "after"):
        assert metrics["audit"][when]["gender"]["verdict"] in ("leak", "none", "inconclusive")
    assert metrics["difference"]["ndcg@10"]["n"] == metrics["undefended"]["ndcg@10"]["n"]
    assert document["config"]["defense"]["method"] == name
    assert "train undefended" in document["timings"]


def test_what_is_compared_with_is_the_same_model_without_the_defense(tmp_path: Path) -> None:
    train_run(PLAN, tmp_path / "plain")
    train_run(PLAN, tmp_path / "blurred", Defense("blurme", 1.0, ["gender"], {"share": 0.5}))
    plain, blurred = (json.loads((tmp_path / run / "metrics.json").read_text()) for run in ("plain", "blurred"))
    assert blurred["undefended"]["ndcg@10"] == plain["ndcg@10"]
    assert blurred["ndcg@10"] != plain["ndcg@10"]


def test_a_defense_of_lists_has_nothing_to_do_in_a_training(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="recveil membership --defense popularity"):
        train_run(PLAN, tmp_path / "run", Defense("popularity", 1.0, ["gender"]))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", ["als", "itemknn", "puresvd"])
def test_a_model_that_takes_no_steps_cannot_be_defended_in_training(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="penalty|training"):
        train_run(Plan("demo", name, device="cpu", k=5), tmp_path / "run", Defense("raid", 1.0, ["gender"]))
    assert not (tmp_path / "run").exists()


def test_users_who_disclose_nothing_take_no_penalty_and_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = load_data("demo", seed=0)
    gender = data.attributes["gender"]
    hidden = replace(gender, codes=np.where(np.arange(data.n_users) % 4, gender.codes, -1))
    known = replace(data, attributes={"gender": hidden})
    monkeypatch.setattr("recveil.workflows.train.load_data", lambda *_, **__: known)
    document = train_run(PLAN, tmp_path / "run", Defense("raid", 1.0, ["gender"]))
    assert any("750 users with unknown gender take no penalty" in note for note in document["utility"]["notes"])


def test_a_training_defense_that_waits_says_what_came_of_it(tmp_path: Path) -> None:
    assert set(WENT_ON) == {True, False}
    notes = [
        train_run(PLAN, tmp_path / name, Defense(name, 1.0, ["gender"], options))["utility"]["notes"]
        for name, options in (("raid", {}), ("raid-paper", {"atoms": 50}))
    ]
    after = train_run(PLAN, tmp_path / "sliced", Defense("sliced", 1.0, ["gender"]))
    raid, sliced = (read_embeddings(tmp_path / name / "users.parquet").x for name in ("raid", "sliced"))
    assert notes[0] == [WENT_ON[not np.array_equal(raid, sliced)]]
    assert notes[1] == after["utility"]["notes"] == []  # neither waits
