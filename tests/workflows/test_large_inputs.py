"""Large tables: recognized, cloaked and audited on a sample; what they cannot do is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from recveil.core.errors import UsageError
from recveil.streaming.ray_engine import RayTaskEngine
from recveil.workflows import large_inputs
from recveil.workflows.audit import audit_files
from recveil.workflows.audit_protocol import AuditProtocol
from recveil.workflows.cloak import cloak_files
from recveil.workflows.cloak_table import CloakRequest
from recveil.workflows.defended_release import ChosenDefense
from recveil.workflows.inputs import InputFiles
from recveil.workflows.large_inputs import is_large_table, make_engine, open_large_table


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng, path = np.random.default_rng(0), tmp_path / "users"
    path.mkdir()
    for part in range(2):
        codes = rng.integers(0, 2, 1500)
        x = rng.standard_normal((1500, 4)).astype(np.float32)
        x[:, 0] += 2 * codes
        lists = pa.FixedSizeListArray.from_arrays(pa.array(x.reshape(-1)), 4)
        columns = {
            "user_id": np.arange(1500) + 1500 * part,
            "embedding": lists,
            "gender": ["FM"[c] if i else None for i, c in enumerate(codes)],
        }
        pq.write_table(pa.table(columns), path / f"part-{part}.parquet")
    return path


def test_folders_large_files_and_files_on_request_are_streamed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = folder / "part-0.parquet"
    assert is_large_table(InputFiles(folder, None))
    assert not is_large_table(InputFiles(one, one))
    assert is_large_table(InputFiles(one, one, stream=True))
    monkeypatch.setattr(large_inputs, "MAX_BYTES_IN_MEMORY", 1000)
    assert is_large_table(InputFiles(one, one))
    assert not is_large_table(InputFiles(None, None, run=folder))


def test_cloak_and_audit_take_a_folder_and_name_the_sample(
    folder: Path, tmp_path: Path, quick: AuditProtocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recveil.streaming.audit_sample.count_needed_users", lambda *_: 150)  # to save time
    files, out = InputFiles(folder, None), tmp_path / "new" / "safe"
    result = cloak_files(files, ["gender"], ChosenDefense("gaussian"), quick, CloakRequest(out, audit=True))
    assert (result.input.name, result.input.n_users, result.input.d) == ("users", 3000, 4)
    assert result.before["gender"].verdict == "leak"
    assert result.before["gender"].headline.advantage.value > 0.5
    assert result.targets["gender"].headline.advantage.value < 0.3
    assert any("3,000 users" in warning for warning in result.warnings)
    assert any("2 users with undisclosed gender" in note for note in result.defense.notes)
    assert any("does not hold 'gender'" in note for note in result.defense.notes)
    assert pq.read_schema(out / "part-0.parquet").names == ["user_id", "embedding"]
    assert sum(result.counts["gender"].values()) == 2998
    assert (result.parts.written, result.parts.found) == (2, 0)
    assert sorted(path.name for path in out.iterdir()) == ["part-0.parquet", "part-1.parquet"]
    again = audit_files(files, ["gender"], quick)
    assert again.verdict == "leak"
    assert "3,000 users" in again.input.sample


def test_what_a_large_table_cannot_do_is_refused(folder: Path, tmp_path: Path, quick: AuditProtocol) -> None:
    files = InputFiles(folder, None)
    for call, reason in (
        (lambda: audit_files(replace(files, interactions=folder), ["gender"], quick), "`interactions`"),
        (lambda: audit_files(files, ["gender"], replace(quick, surface="lists")), "`surface` lists"),
        (lambda: audit_files(files, ["gender"], quick, before=[folder]), "`before`"),
    ):
        with pytest.raises(UsageError, match=f"{reason} cannot be used with a large table"):
            call()
    for defense, request, reason in (
        ("gaussian", CloakRequest(tmp_path / "safe", frontier=True), "`frontier`"),
        ("noise", CloakRequest(tmp_path / "safe"), "(?i)noise"),
    ):
        with pytest.raises(UsageError, match=reason):
            cloak_files(files, ["gender"], ChosenDefense(defense), quick, request)
    run = InputFiles(None, None, run=folder)
    with pytest.raises(UsageError, match="`embeddings`"):
        cloak_files(run, ["gender"], ChosenDefense("gaussian"), quick, CloakRequest(tmp_path, engine=RayTaskEngine()))
    assert not list(tmp_path.glob("safe/*.parquet"))


def test_engines_have_names() -> None:
    assert make_engine("local") is None
    assert make_engine("ray", "auto") == RayTaskEngine("auto")
    with pytest.raises(UsageError, match="No engine is called 'spark'"):
        make_engine("spark")
    with pytest.raises(UsageError, match="`engine` ray"):
        make_engine("local", "auto")


def test_attributes_are_in_the_table_or_in_another_file(folder: Path, tmp_path: Path) -> None:
    assert open_large_table(InputFiles(folder, None), ["gender"]).facts.path is None
    assert open_large_table(InputFiles(folder, folder), ["gender"]).facts.path is None
    assert open_large_table(InputFiles(folder, tmp_path / "x.csv"), ["gender"]).facts.path == tmp_path / "x.csv"
    ids = tmp_path / "ids.txt"
    ids.write_text("1\n")
    with pytest.raises(UsageError, match="has ids of its own"):
        open_large_table(InputFiles(folder, None, ids=ids), ["gender"])
