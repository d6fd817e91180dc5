import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from recveil.data.files import read_embeddings
from recveil.errors import UsageError
from recveil.training import Defense, Plan, load_data, train_run

PLAN = Plan("demo", "bprmf", {"epochs": 2, "embedding_size": 8}, k=10, seed=0, device="cpu")


def test_a_run_writes_all_that_the_audit_needs(tmp_path: Path) -> None:
    document = train_run(PLAN, tmp_path / "run")
    folder = tmp_path / "run"
    data = load_data("demo", seed=0)
    assert read_embeddings(folder / "users.parquet").x.shape == (data.n_users, 8)
    assert read_embeddings(folder / "items.parquet", of="item").x.shape == (data.n_items, 8)
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
