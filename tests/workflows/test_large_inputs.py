"""Large tables through the same commands: recognized, cloaked, audited on a sample; what cannot be asked is said."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from recveil.cli.app import app
from recveil.core.errors import UsageError
from recveil.streaming.ray_engine import RayEngine
from recveil.workflows import large_inputs as large
from recveil.workflows.inputs import Files
from recveil.workflows.large_inputs import engine_of, is_large, open_large


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


def test_a_folder_a_large_file_and_a_wish_are_streamed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = folder / "part-0.parquet"
    assert is_large(Files(folder, None))
    assert not is_large(Files(one, one))
    assert is_large(Files(one, one, stream=True))
    monkeypatch.setattr(large, "LARGE_BYTES", 1000)
    assert is_large(Files(one, one))
    assert not is_large(Files(None, None, run=folder))


def test_cloak_and_audit_take_a_folder_and_say_what_they_drew(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recveil.streaming.audit_sample.users_needed", lambda *given: 150)  # of time
    out, page = tmp_path / "safe", tmp_path / "page.html"
    shared = ["--embeddings", str(folder), "--target", "gender", "--folds", "3", "--seeds", "1", "--device", "cpu"]
    command = ["cloak", *shared, "--method", "gaussian", "--out", str(out), "--report", str(page), "--json"]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert told["input"] == {"name": "users", "n_users": 3000, "d": 4}
    assert told["before"]["gender"]["verdict"] == "leak"
    assert told["before"]["gender"]["headline"]["advantage"]["value"] > 0.5
    assert told["targets"]["gender"]["headline"]["advantage"]["value"] < 0.3
    assert any("The table has 3,000 users; the audit drew" in note for note in told["warnings"])
    assert any("2 users with unknown gender went through the label-free map" in n for n in told["defense"]["notes"])
    assert any("still has the column gender" in note for note in told["defense"]["notes"])
    assert sorted(path.name for path in out.iterdir()) == ["part-0.parquet", "part-1.parquet"]
    assert "the audit drew" in page.read_text()
    audited = CliRunner().invoke(app, ["audit", *shared, "--json"])
    assert audited.exit_code == 0, audited.output
    again = json.loads(audited.stdout)
    assert again["targets"]["gender"]["verdict"] == "leak"
    assert "The table has 3,000 users" in again["input"]["sample"]


def test_what_cannot_be_asked_of_a_large_table_ends_in_one_sentence(folder: Path, tmp_path: Path) -> None:
    shared = ["--embeddings", str(folder), "--target", "gender"]
    for more, said in (
        (["--interactions", str(folder)], "--interactions cannot be used with a large table"),
        (["--surface", "lists"], "--surface lists cannot be used"),
        (["--before", str(folder)], "--before cannot be used"),
    ):
        done = CliRunner().invoke(app, ["audit", *shared, *more])
        assert done.exit_code == 2
        assert said in done.stderr
    out = ["--out", str(tmp_path / "safe")]
    for more, said in (
        (["--frontier"], "--frontier cannot be used"),
        (["--method", "noise"], "noise needs it in memory"),
        (["--engine", "spark"], "No engine is called 'spark'"),
        (["--address", "auto"], "Add --engine ray"),
    ):
        done = CliRunner().invoke(app, ["cloak", *shared, *out, *more])
        assert done.exit_code == 2, done.stderr
        assert said in done.stderr
    assert not list(tmp_path.glob("safe/*.parquet"))


def test_an_engine_is_for_large_tables(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["cloak", "--run", str(tmp_path), "--engine", "ray", "--out", str(tmp_path / "x")])
    assert done.exit_code == 2
    assert "named by --embeddings" in done.stderr


def test_engines_have_names() -> None:
    assert engine_of("local") is None
    assert engine_of("ray", "auto") == RayEngine("auto")


def test_attributes_stand_in_the_table_or_beside_it(folder: Path, tmp_path: Path) -> None:
    assert open_large(Files(folder, None), ["gender"]).facts.path is None
    assert open_large(Files(folder, folder), ["gender"]).facts.path is None
    assert open_large(Files(folder, tmp_path / "x.csv"), ["gender"]).facts.path == tmp_path / "x.csv"
    ids = tmp_path / "ids.txt"
    ids.write_text("1\n")
    with pytest.raises(UsageError, match="has ids of its own"):
        open_large(Files(folder, None, ids=ids), ["gender"])
