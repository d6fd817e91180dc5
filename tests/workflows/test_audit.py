"""A whole audit of files: other surfaces than the vectors, an earlier table, single users, joint classes."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from recveil.audits.gates import parse_gate
from recveil.core.errors import DataError, UsageError
from recveil.core.results import AuditResult
from recveil.data.io.release_files import write_lists, write_vectors
from recveil.workflows import audit as audit_workflow
from recveil.workflows.audit import AuditOutputs, audit_files
from recveil.workflows.audit_protocol import AuditProtocol
from recveil.workflows.inputs import InputFiles

IDS = np.arange(240) + 1000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Vectors without a leak, lists that reveal gender, and the earlier table of the same users."""
    rng, path = np.random.default_rng(2), tmp_path_factory.mktemp("tables")
    code = rng.integers(2, size=240)
    before = rng.standard_normal((240, 3)).astype(np.float32)
    write_vectors(path / "before.parquet", "user_id", IDS[::-1], before[::-1])
    write_vectors(path / "users.parquet", "user_id", IDS, before + np.where(code, 1, -1)[:, None] * np.float32(0.05))
    write_vectors(path / "items.parquet", "item_id", np.arange(20), rng.standard_normal((20, 3)).astype(np.float32))
    lists = np.argsort(rng.random((240, 10)), axis=1)[:, :5] + 10 * code[:, None]
    write_lists(path / "recommendations.parquet", lists, IDS, np.arange(20))
    gender, hand = np.array(["F", "M"], object)[code], np.array(["l", "r"], object)[IDS % 2]
    pq.write_table(pa.table({"user_id": IDS, "gender": gender, "hand": hand}), path / "attributes.parquet")
    return path


@pytest.fixture
def files(folder: Path) -> InputFiles:
    return InputFiles(None, None, run=folder)


def test_another_surface_is_another_verdict(files: InputFiles, quick: AuditProtocol) -> None:
    assert audit_files(files, ["gender"], quick).verdict != "leak"
    for surface in ("lists", "list_means"):
        assert audit_files(files, ["gender"], replace(quick, surface=surface)).verdict == "leak", surface
    with pytest.raises(DataError, match="interactions"):
        audit_files(files, ["gender"], replace(quick, surface="interactions"))


def test_a_gate_on_another_target_is_refused_before_the_work(
    files: InputFiles, quick: AuditProtocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    gates = [parse_gate('"gender & hand".advantage.low > 0.9')]
    assert "gender & hand" in audit_files(files, ["gender", "hand"], quick, joint=True, gates=gates).targets
    monkeypatch.setattr(audit_workflow, "audit_table", lambda *_, **__: pytest.fail("the work began"))
    with pytest.raises(UsageError, match="No audited target is called 'gender & hand'"):
        audit_files(files, ["gender", "hand"], quick, gates=gates)


def test_an_attacker_who_holds_both_tables_reads_the_class_off_the_displacement(
    files: InputFiles, folder: Path, quick: AuditProtocol
) -> None:
    result = audit_files(files, ["gender"], quick, before=[folder / "before.parquet"])
    assert result.verdict != "leak"
    assert result.static["gender"].verdict != "leak"
    assert result.two_releases["gender"].verdict == "leak"
    assert result.two_releases["gender"].headline.balanced_accuracy.value > 0.95


def test_an_attacker_may_hold_several_tables_of_nearly_the_same_users(
    files: InputFiles, folder: Path, tmp_path: Path, quick: AuditProtocol
) -> None:
    rng = np.random.default_rng(5)
    older = tmp_path / "older.parquet"
    write_vectors(older, "user_id", IDS[20:], rng.standard_normal((220, 3)).astype(np.float32))
    alone = audit_files(files, ["gender"], quick, before=[older])
    assert alone.two_releases["gender"].verdict != "leak"  # an unrelated table tells nothing
    both = audit_files(files, ["gender"], quick, before=[older, folder / "before.parquet"])
    assert both.two_releases["gender"].headline.balanced_accuracy.value > 0.95
    assert any("220 users who are in all tables" in warning for warning in both.warnings)
    write_vectors(older, "user_id", IDS + 1_000, rng.standard_normal((240, 3)).astype(np.float32))
    with pytest.raises(DataError, match="No user is both in"):
        audit_files(files, ["gender"], quick, before=[older])


def test_joint_classes_are_audited_beside_the_single_ones(files: InputFiles, quick: AuditProtocol) -> None:
    result = audit_files(files, ["gender", "hand"], quick, joint=True, command_line=["recveil", "audit"])
    assert list(result.targets) == ["gender", "hand", "gender & hand"]
    assert result.targets["gender & hand"].chance == 0.25
    assert result.command_line == ["recveil", "audit"]


@pytest.mark.thorough
def test_outputs_are_written_into_folders_that_did_not_exist_and_users_are_in_their_own_file_alone(
    files: InputFiles, tmp_path: Path, quick: AuditProtocol
) -> None:
    new = tmp_path / "not" / "yet"
    outputs = AuditOutputs(risk=new / "risk.parquet", out=new / "r.json", report=new / "r.html")
    result = audit_files(files, ["gender", "hand"], replace(quick, curve=True), outputs=outputs)
    assert AuditResult.read_json(new / "r.json") == result
    risk = pq.read_table(new / "risk.parquet")
    assert sorted(risk["user_id"].to_pylist()) == sorted([*IDS.tolist(), *IDS.tolist()])
    assert not re.search(r"(?<![\d.])1017(?!\d)", (new / "r.json").read_text())
    assert "1017" not in (new / "r.html").read_text()
    for target in result.targets.values():
        assert target.leak_map is not None
        assert target.activity is None  # no interactions are known
        assert [point.ratio for point in target.curve] == [0.2, 0.4, 0.6, 0.6667]


def test_details_are_computed_only_for_those_who_see_them(files: InputFiles, quick: AuditProtocol) -> None:
    target = audit_files(files, ["gender"], quick).targets["gender"]
    assert (target.leak_map, target.activity, target.curve) == (None, None, None)


def test_outputs_that_cannot_be_written_are_refused_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    nothing = InputFiles(tmp_path / "missing.parquet", tmp_path / "missing.parquet")
    for outputs in (AuditOutputs(out=tmp_path / "file" / "r.json"), AuditOutputs(risk=tmp_path / "risk.csv")):
        with pytest.raises(UsageError):
            audit_files(nothing, [], AuditProtocol(), outputs=outputs)


def test_activity_comes_from_the_interactions_or_from_the_data_of_the_run(
    files: InputFiles, folder: Path, tmp_path: Path, quick: AuditProtocol
) -> None:
    users = np.repeat(IDS, np.arange(240) % 60 + 1)
    items = np.concatenate([np.arange(n % 60 + 1) for n in range(240)])
    log = tmp_path / "interactions.parquet"
    pq.write_table(pa.table({"user_id": users, "item_id": items}), log)
    one, outputs = replace(quick, panel="logistic"), AuditOutputs(printed=True)

    def read_activity(inputs: InputFiles) -> object:
        return audit_files(inputs, ["gender"], one, outputs=outputs).targets["gender"].activity

    groups = read_activity(replace(files, interactions=log))
    assert sum(group.n for group in groups) == 240
    assert groups[0].over is None
    config = folder / "config.json"
    try:
        for text, expected in (
            ("{", None),
            ('{"data": "nowhere.csv", "model": "als", "seed": 0}', None),
            (json.dumps({"data": str(log), "model": "als", "seed": 0}), groups),
        ):
            config.write_text(text)
            assert read_activity(files) == expected, text
    finally:
        config.unlink()
