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
