"""`recveil train`: the run folder, the numbers and the notes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from recveil.core.results import TrainResult


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder with interactions of 60 users and their gender."""
    rng, folder = np.random.default_rng(0), tmp_path / "data"
    folder.mkdir()
    pairs = np.unique(rng.integers((60, 40), size=(900, 2)), axis=0)
    log = pa.table({"user_id": pairs[:, 0], "item_id": pairs[:, 1], "timestamp": rng.permutation(len(pairs))})
    pq.write_table(log, folder / "interactions.parquet")
    pq.write_table(pa.table({"user_id": np.arange(60), "gender": ["F", "M"] * 30}), folder / "users.parquet")
    return tmp_path


@pytest.mark.thorough
def test_a_defended_run_is_written_and_told(data: Path, recveil: Callable) -> None:
    model = ("--option", "epochs=1", "--option", "embedding_size=4", "--device", "cpu", "--k", "5")
    defense = ("--defense", "gaussian", "--target", "gender", "--strength", "0.5")
    done = recveil("train", "--data", "data", "--out", "not/yet/run", *model, *defense, "--seed", 3, cwd=data)
    assert done.returncode == 0, done.stderr
    result = TrainResult.read_json(data / "not" / "yet" / "run" / "metrics.json")
    assert (result.config.seed, result.config.options["epochs"], result.config.defense.strength) == (3, 1, 0.5)
    for part in (result.before["gender"].sentence, result.targets["gender"].sentence, "ndcg@10", "users.parquet"):
        assert part in done.stdout
    plain = recveil("train", "--data", "data", "--out", "run", *model, "--json", cwd=data)
    assert plain.returncode == 0, plain.stderr
    assert TrainResult.model_validate_json(plain.stdout).targets == {}


def test_a_run_does_not_replace_the_data_or_files_of_others(data: Path, recveil: Callable) -> None:
    users = (data / "data" / "users.parquet").read_bytes()
    (data / "link").symlink_to("data")
    for name, out, sentence in (
        ("data", "data", "lies in --data"),
        ("data", "link", "lies in --data"),
        ("demo", "data", "data holds users.parquet, which this command did not write"),
    ):
        done = recveil("train", "--data", name, "--out", out, cwd=data)
        assert done.returncode == 2
        assert sentence in done.stderr
    assert (data / "data" / "users.parquet").read_bytes() == users
    assert sorted(path.name for path in (data / "data").iterdir()) == ["interactions.parquet", "users.parquet"]


def test_a_run_that_is_killed_or_replaced_is_never_a_mixture(
    data: Path, recveil: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ("train", "--data", "data", "--out", "run", "--k", "5", "--model", "puresvd")
    done = recveil(*command, "--option", "embedding_size=4", cwd=data)
    assert (done.returncode, "earlier run" in done.stderr) == (0, False), done.stderr
    assert (data / "run" / "attributes.parquet").stat().st_mode & 0o777 == 0o600
    old = {path: path.read_bytes() for path in (data / "run").rglob("*") if path.is_file()}

    def fail(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("recveil.workflows.train.write_lists", fail)
        assert recveil(*command, "--option", "embedding_size=8", cwd=data).returncode == 130
    assert {path: path.read_bytes() for path in (data / "run").rglob("*") if path.is_file()} == old
    (data / "run" / ".recveil-incomplete").touch()  # as a kill leaves it while files are moved
    for reader in (("audit",), ("cloak", "--out", "C.parquet")):
        done = recveil(*reader, "--run", "run", cwd=data)
        assert done.returncode == 3
        assert "run holds files of two runs" in done.stderr
    again = recveil("train", "--data", "data", "--out", "run", "--model", "itemknn", cwd=data)
    assert (again.returncode, "run holds an earlier run, which is replaced" in again.stderr) == (0, True)
    left = sorted(str(path.relative_to(data / "run")) for path in (data / "run").rglob("*") if path.is_file())
    assert "users.parquet" not in left  # the new model has no user vectors
    assert ".recveil-incomplete" not in left
