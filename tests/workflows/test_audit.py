"""A whole audit of files: other surfaces than the vectors, the past, single users, joint classes."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from recveil.core.errors import DataError
from recveil.data.io.release_files import write_lists, write_vectors
from recveil.workflows.audit import Outputs, Protocol, audit_files
from recveil.workflows.cloak import Defense, cloak_files
from recveil.workflows.inputs import Files

RULES = Protocol(folds=3, seeds=1, device="cpu")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Vectors without a leak, lists that give gender away, and the table from which the vectors were moved."""
    rng = np.random.default_rng(0)
    n, ids = 240, np.arange(240) + 1000
    code = rng.integers(2, size=n)
    before = rng.standard_normal((n, 3)).astype(np.float32)
    write_vectors(tmp_path / "before.parquet", "user_id", ids[::-1], before[::-1])
    write_vectors(
        tmp_path / "users.parquet", "user_id", ids, before + np.where(code, 1, -1)[:, None] * np.float32(0.05)
    )
    write_vectors(tmp_path / "items.parquet", "item_id", np.arange(20), rng.standard_normal((20, 3)).astype(np.float32))
    lists = np.argsort(rng.random((n, 10)), axis=1)[:, :5] + 10 * code[:, None]
    write_lists(tmp_path / "recommendations.parquet", lists, ids, np.arange(20))
    facts = {
        "user_id": ids,
        "gender": np.array(["F", "M"], object)[code],
        "hand": np.array(["l", "r"], object)[ids % 2],
    }
    pq.write_table(pa.table(facts), tmp_path / "attributes.parquet")
    return tmp_path


def test_another_surface_is_another_verdict(folder: Path) -> None:
    files = Files(None, None, run=folder)
    assert audit_files(files, ["gender"], RULES)["targets"]["gender"]["verdict"] != "leak"
    for surface in ("lists", "list_means"):
        document = audit_files(files, ["gender"], Protocol(folds=3, seeds=1, surface=surface, device="cpu"))
        assert document["targets"]["gender"]["verdict"] == "leak", surface
    with pytest.raises(DataError, match="no interactions"):
        audit_files(files, ["gender"], Protocol(folds=3, seeds=1, surface="interactions"))


def test_who_holds_both_tables_reads_the_class_off_the_displacement(folder: Path) -> None:
    document = audit_files(Files(None, None, run=folder), ["gender"], RULES, before=folder / "before.parquet")
    assert document["targets"]["gender"]["verdict"] != "leak"
    assert document["two_releases"]["gender"]["verdict"] == "leak"
    assert document["two_releases"]["gender"]["headline"]["balanced_accuracy"]["value"] > 0.95
    assert document["static"]["gender"]["verdict"] != "leak"


def test_joint_classes_are_audited_beside_the_single_ones(folder: Path) -> None:
    document = audit_files(Files(None, None, run=folder), ["gender", "hand"], RULES, together=True)
    assert list(document["targets"]) == ["gender", "hand", "gender & hand"]
    assert document["targets"]["gender & hand"]["chance"] == 0.25


def test_single_users_are_told_in_their_own_file_and_nowhere_else(folder: Path, tmp_path: Path) -> None:
    outputs = Outputs(risk=folder / "risk.parquet", out=folder / "d.json")
    audit_files(Files(None, None, run=folder), ["gender"], RULES, outputs=outputs)
    risk = pq.read_table(folder / "risk.parquet")
    assert sorted(risk["user_id"].to_pylist()) == list(range(1000, 1240))
    assert "1017" not in (folder / "d.json").read_text()


def test_cloaking_reports_who_holds_both_tables(folder: Path) -> None:
    files = Files(None, None, run=folder)
    document = cloak_files(files, ["gender"], Defense("gaussian"), RULES, out=folder / "c.parquet", audited=True)
    assert {"before", "targets", "static", "two_releases"} <= set(document)
    for part in ("before", "targets"):
        assert document[part]["gender"]["where"]["range"] == document["before"]["gender"]["where"]["range"]


def test_where_it_leaks_is_told_only_to_those_who_look(folder: Path) -> None:
    files = Files(None, None, run=folder)
    assert not {"where", "activity", "curve"} & set(audit_files(files, ["gender"], RULES)["targets"]["gender"])
    shown = audit_files(files, ["gender", "hand"], RULES, outputs=Outputs(report=folder / "r.html"), together=True)
    assert all("where" in target and "activity" not in target for target in shown["targets"].values())
    assert "Where gender leaks" in (folder / "r.html").read_text()


def test_the_curve_has_every_ratio_that_the_folds_allow(folder: Path) -> None:
    files = Files(None, None, run=folder)
    main = audit_files(files, ["gender"], Protocol(folds=3, seeds=1, device="cpu", curve=True))["targets"]["gender"]
    assert [step["ratio"] for step in main["curve"]] == [0.2, 0.4, 0.6, 0.6667]
    assert main["curve"][-1]["advantage"] == main["headline"]["advantage"]
    for step in main["curve"]:
        assert step["advantage"]["low"] <= step["advantage"]["value"] <= step["advantage"]["high"]
    rules = Protocol(folds=2, seeds=1, device="cpu", leak_ratio=0.4, curve=True)
    other = audit_files(files, ["gender"], rules)["targets"]["gender"]
    assert [step["ratio"] for step in other["curve"]] == [0.2, 0.4]
    assert other["curve"][-1]["balanced_accuracy"] == other["headline"]["balanced_accuracy"]


def test_activity_comes_from_the_interactions_or_from_the_data_of_the_run(folder: Path) -> None:
    users = np.repeat(np.arange(240) + 1000, np.arange(240) % 60 + 1)
    items = np.concatenate([np.arange(n % 60 + 1) for n in range(240)])
    pq.write_table(pa.table({"user_id": users, "item_id": items}), folder / "interactions.parquet")
    outputs = Outputs(printed=True)
    given = Files(None, None, run=folder, interactions=folder / "interactions.parquet")
    groups = audit_files(given, ["gender"], RULES, outputs=outputs)["targets"]["gender"]["activity"]
    assert sum(group["n"] for group in groups) == 240
    assert groups[0]["over"] is None
    run = Files(None, None, run=folder)
    for text, there in (("{", False), ('{"data": "nowhere.csv", "model": "als", "seed": 0}', False), (None, True)):
        config = {"data": str(folder / "interactions.parquet"), "model": "als", "seed": 0}
        (folder / "config.json").write_text(text or json.dumps(config))
        found = audit_files(run, ["gender"], RULES, outputs=outputs)["targets"]["gender"]
        assert ("activity" in found) == there, text
    assert found["activity"] == groups
