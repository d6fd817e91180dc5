"""A whole `cloak`: what it is worth, what the lists give away, and what is said when that is not known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from recveil.core.errors import UsageError
from recveil.core.types import Dataset
from recveil.report.html import render
from recveil.workflows.audit import Protocol
from recveil.workflows.cloak import Defense, cloak_files
from recveil.workflows.inputs import Files
from recveil.workflows.train import Plan, load_data, train_run

RULES = Protocol(folds=3, seeds=1, device="cpu")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cloaked") / "run"
    train_run(Plan("demo", "bprmf", {"epochs": 4, "embedding_size": 8}, k=10, device="cpu"), folder)
    return folder


def test_a_run_is_cloaked_measured_and_its_lists_are_audited(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[str] = []

    def counting(name: str, **options: Any) -> Dataset:
        loaded.append(name)
        return load_data(name, **options)

    monkeypatch.setattr("recveil.workflows.serving.load_data", counting)
    files = Files(None, None, run=run)
    told = cloak_files(files, ["gender"], Defense("gaussian"), RULES, out=tmp_path / "c.parquet", audited=True)
    utility = told["utility"]
    assert utility["before"]["ndcg@10"]["value"] > utility["after"]["ndcg@10"]["value"] > 0
    assert utility["difference"]["ndcg@10"]["low"] < utility["difference"]["ndcg@10"]["value"]
    assert set(utility["per_class"]) == {"gender"}
    assert told["lists"]["before"]["gender"]["verdict"] == "leak"
    advantages = [told["lists"][when]["gender"]["headline"]["advantage"]["value"] for when in ("before", "after")]
    assert advantages[0] != advantages[1]  # the lists were made anew from the cloaked vectors
    whole = told["lists"]["after_seen_too"]["gender"]["headline"]["advantage"]
    assert whole["low"] == 0.0  # nothing left out: what the vectors hide, the lists hide
    assert whole["value"] < advantages[1]
    assert any("leave out what each user has touched" in said for said in told["warnings"])
    assert told["seconds"] >= 0
    assert sum(group["n"] for group in told["targets"]["gender"]["activity"]) > 0
    assert loaded == ["demo"]  # once, for the activity and for serving
    page = render(told)
    assert "What the lists give away" in page
    assert "What the recommendations are worth" in page


def test_the_paper_s_form_with_data_gets_its_loss_from_the_run(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recveil.models.losses.PAIRS", 256)  # of time
    told = cloak_files(
        Files(None, None, run=run), ["gender"], Defense("attrcloak-dd", 0.5), RULES, out=tmp_path / "c.parquet"
    )
    assert told["defense"]["displacement"]["relative"] > 0
    assert pq.read_table(tmp_path / "c.parquet").num_rows == pq.read_table(run / "users.parquet").num_rows


def test_without_items_and_interactions_the_form_with_data_says_what_to_give(run: Path, tmp_path: Path) -> None:
    files = Files(run / "users.parquet", run / "attributes.parquet")
    with pytest.raises(UsageError, match="interactions"):
        cloak_files(files, ["gender"], Defense("attrcloak-dd"), RULES, out=tmp_path / "c.parquet")
    half = Files(run / "users.parquet", run / "attributes.parquet", item_embeddings=run / "items.parquet")
    with pytest.raises(UsageError, match="both --item-embeddings and --interactions"):
        cloak_files(half, ["gender"], Defense("gaussian"), RULES, out=tmp_path / "c.parquet")
    assert not (tmp_path / "c.parquet").exists()


def test_a_run_whose_data_are_gone_is_cloaked_and_the_gap_is_named(run: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    bare.mkdir()
    for name in ("users.parquet", "attributes.parquet"):
        (bare / name).write_bytes((run / name).read_bytes())
    files = Files(None, None, run=bare)
    told = cloak_files(files, ["gender"], Defense("gaussian"), RULES, out=tmp_path / "c.parquet", audited=True)
    assert "utility" not in told
    assert any("was not measured" in warning for warning in told["warnings"])
