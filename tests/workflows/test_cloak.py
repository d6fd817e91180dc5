"""A whole `cloak`: what the table is worth, what the lists reveal, and what is said when that is not known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from recveil.core.errors import DataError, UsageError
from recveil.core.results import CloakResult
from recveil.core.types import Dataset
from recveil.data.io.tables import read_table
from recveil.data.sources.catalog import load_dataset_or_demo
from recveil.workflows.audit_protocol import AuditProtocol
from recveil.workflows.cloak import _read_recommendations, cloak_files
from recveil.workflows.cloak_table import CloakRequest
from recveil.workflows.defended_release import ChosenDefense
from recveil.workflows.inputs import InputFiles

GAUSSIAN = ChosenDefense("gaussian")


def cloak(files: InputFiles, defense: ChosenDefense, protocol: AuditProtocol, out: Path, **request: Any) -> CloakResult:
    return cloak_files(files, ["gender"], defense, protocol, CloakRequest(out, **request))


@pytest.mark.thorough
def test_a_run_is_cloaked_measured_and_its_lists_are_audited(
    trained_run: Path, tmp_path: Path, quick: AuditProtocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[str] = []

    def count_loads(name: str, **options: Any) -> Dataset:
        loaded.append(name)
        return load_dataset_or_demo(name, **options)

    monkeypatch.setattr("recveil.workflows.utility.load_dataset_or_demo", count_loads)
    new = tmp_path / "not" / "yet"
    files = InputFiles(None, None, run=trained_run)
    result = cloak(files, GAUSSIAN, quick, new / "c.parquet", report=new / "r.html", command_line=["recveil", "cloak"])
    assert len(loaded) == 1  # once, for the activity and for serving
    assert result.before["gender"].verdict == "leak"
    assert result.targets["gender"].headline.advantage.value < result.before["gender"].headline.advantage.value
    assert {*result.static, *result.two_releases} == {"gender"}
    assert result.before["gender"].leak_map.ranges == result.targets["gender"].leak_map.ranges
    assert sum(group.n for group in result.targets["gender"].activity) == 500
    utility = result.utility
    assert utility.before["ndcg@10"].value != utility.after["ndcg@10"].value
    assert utility.difference["ndcg@10"].low < utility.difference["ndcg@10"].value
    assert set(utility.per_class) == {"gender"}
    assert result.lists.before["gender"].verdict == "leak"
    omitting, whole = (each["gender"].headline.advantage for each in (result.lists.after, result.lists.after_with_seen))
    assert whole.low == 0  # lists that omit nothing reveal no more than the vectors
    assert whole.value < omitting.value
    assert any("omit" in warning for warning in result.warnings)
    assert result.command_line == ["recveil", "cloak"]
    assert "gender" in (new / "r.html").read_text()
    before, after = (pq.read_table(path) for path in (trained_run / "users.parquet", new / "c.parquet"))
    assert after.schema.equals(before.schema)
    assert after["user_id"].equals(before["user_id"])


def test_without_a_report_nothing_is_audited_unless_asked(
    trained_run: Path, tmp_path: Path, quick: AuditProtocol
) -> None:
    files = InputFiles(trained_run / "users.parquet", trained_run / "attributes.parquet")
    bare = cloak(files, replace(GAUSSIAN, options={"strength": 0.5}), quick, tmp_path / "c.parquet")
    assert (bare.targets, bare.protocol, bare.utility, bare.frontier) == ({}, None, None, None)
    assert (bare.defense.strength, bare.defense.options) == (0.5, {})
    assert bare.defense.displacement > 0
    audited = cloak(files, GAUSSIAN, quick, tmp_path / "c.parquet", audit=True)
    assert set(audited.targets) == {"gender"}
    assert audited.lists is None


def test_a_defense_that_needs_a_loss_gets_it_from_the_run(
    trained_run: Path, tmp_path: Path, quick: AuditProtocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recveil.models.losses.MAX_PAIRS", 256)  # to save time
    defense = ChosenDefense("attrcloak-dd", {"strength": 0.5, "steps": 5})
    result = cloak(InputFiles(None, None, run=trained_run), defense, quick, tmp_path / "c.parquet")
    assert result.defense.displacement > 0
    assert result.defense.options == {"steps": 5}
    assert pq.read_table(tmp_path / "c.parquet").num_rows == 500
    tables = InputFiles(trained_run / "users.parquet", trained_run / "attributes.parquet")
    for files in (tables, replace(tables, item_embeddings=trained_run / "items.parquet")):
        with pytest.raises(UsageError, match="interactions"):
            cloak(files, defense, quick, tmp_path / "d.parquet")
    assert not (tmp_path / "d.parquet").exists()


def test_a_run_whose_data_are_elsewhere_is_cloaked_and_the_gap_is_named(
    trained_run: Path, tmp_path: Path, quick: AuditProtocol
) -> None:
    bare = tmp_path / "bare"
    bare.mkdir()
    for name in ("users.parquet", "attributes.parquet"):
        (bare / name).write_bytes((trained_run / name).read_bytes())
    result = cloak(InputFiles(None, None, run=bare), GAUSSIAN, quick, tmp_path / "c.parquet", audit=True)
    assert result.utility is None
    assert any("not measured" in warning for warning in result.warnings)


def test_the_same_seed_writes_the_same_bytes(trained_run: Path, tmp_path: Path, quick: AuditProtocol) -> None:
    files = InputFiles(trained_run / "users.parquet", trained_run / "attributes.parquet")
    for name, seed in (("1", 3), ("2", 3), ("3", 4)):
        defense = ChosenDefense("noise")
        cloak(files, defense, replace(quick, seed=seed), tmp_path / f"{name}.parquet")
    first, again, other = ((tmp_path / f"{name}.parquet").read_bytes() for name in "123")
    assert first == again != other
    assert np.isfinite(pq.read_table(tmp_path / "1.parquet")["embedding"].combine_chunks().flatten().to_numpy()).all()


def write_table_with_target(path: Path) -> pa.Table:
    """Write a table that holds the attribute to protect beside the vectors, in the format that the name asks for."""
    rng, codes = np.random.default_rng(0), np.arange(200) % 2
    x = (rng.standard_normal((200, 2)) + codes[:, None]).astype(np.float32)
    columns = {"user_id": np.arange(200), "emb_0": x[:, 0], "emb_1": x[:, 1], "Gender": ["FM"[code] for code in codes]}
    table = pa.table({**columns, "plan": ["free", "paid"] * 100})
    if path.suffix == ".parquet":
        pq.write_table(table, path)
    else:
        pyarrow.csv.write_csv(table, path)
    return table


@pytest.mark.parametrize(("name", "stream"), [("u.parquet", False), ("u.csv", False), ("u.parquet", True)])
def test_a_column_that_holds_the_target_is_left_out_unless_it_is_to_be_kept(
    tmp_path: Path, quick: AuditProtocol, name: str, stream: bool
) -> None:
    path, facts = tmp_path / name, tmp_path / "facts.parquet"
    table = write_table_with_target(path)
    pq.write_table(pa.table({"user_id": table.column("user_id"), "gender": table.column("Gender")}), facts)
    for attributes, targets in ((path, ["Gender"]), (facts, ["gender"])):  # in the table itself, and beside it
        for keep_target in (False, True):
            out = tmp_path / f"{attributes.stem}{keep_target}{path.suffix}"
            request = CloakRequest(out, keep_target=keep_target)
            result = cloak_files(InputFiles(path, attributes, stream=stream), targets, GAUSSIAN, quick, request)
            expected = [column for column in table.column_names if keep_target or column != "Gender"]
            assert read_table(out).column_names == expected
            [note] = [note for note in result.defense.notes if "'Gender'" in note]
            assert note.startswith("WARNING") == keep_target


@pytest.mark.parametrize("stream", [False, True])
def test_a_table_of_5000_columns_is_refused_at_once(tmp_path: Path, quick: AuditProtocol, stream: bool) -> None:
    x = np.random.default_rng(0).standard_normal((60, 5_000)).astype(np.float32)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(x.ravel()), 5_000)
    pq.write_table(pa.table({"user_id": range(60), "embedding": vectors, "gender": ["F", "M"] * 30}), tmp_path / "u.pq")
    files = InputFiles(tmp_path / "u.pq", tmp_path / "u.pq", stream=stream)
    with pytest.raises(UsageError, match="more than 1,024"):
        cloak(files, ChosenDefense("sliced"), quick, tmp_path / "out.pq")
    assert [path.name for path in tmp_path.iterdir()] == ["u.pq"]


def test_a_warning_names_no_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise DataError("demo names 3 unknown users, for instance 'u17' and more. Give the same users.")

    monkeypatch.setattr("recveil.workflows.cloak.recommendations_from_run", fail)
    served, [warning] = _read_recommendations(InputFiles(None, None, run=tmp_path), None, 0)
    assert served is None
    assert warning.endswith("demo names 3 unknown users and more. Give the same users.")
