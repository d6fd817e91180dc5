from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from recveil.core.errors import DataError, UsageError
from recveil.data.io.release_files import write_vectors
from recveil.workflows.inputs import Files


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_vectors(tmp_path / "users.parquet", "user_id", np.arange(40), np.eye(40, 3, dtype=np.float32))
    columns = {"user_id": np.arange(40), "gender": ["F", "M"] * 20, "age": np.linspace(18, 60, 40)}
    pq.write_table(pa.table(columns), tmp_path / "attributes.parquet")
    return tmp_path


def test_a_run_folder_stands_for_its_two_files(folder: Path) -> None:
    vectors, targets = Files(None, None, run=folder).read(["gender"])
    assert vectors.x.shape == (40, 3)
    assert [t.name for t in targets] == ["gender"]


def test_without_a_target_all_classes_are_taken_and_numbers_left_out(folder: Path) -> None:
    files = Files(folder / "users.parquet", folder / "attributes.parquet", numeric=["age"])
    assert [t.name for t in files.read([])[1]] == ["gender"]


def test_numbers_are_refused_as_targets_unless_cut(folder: Path) -> None:
    files = Files(folder / "users.parquet", folder / "attributes.parquet", numeric=["age"])
    with pytest.raises(DataError, match="--bins age=35,45"):
        files.read(["age"])
    cut = Files(folder / "users.parquet", folder / "attributes.parquet", bins={"age": [35, 45]})
    assert cut.read(["age"])[1][0].labels == ("<35", "35-44", "45+")


def test_files_or_a_folder_but_not_both(folder: Path) -> None:
    with pytest.raises(UsageError, match="not both"):
        Files(folder / "users.parquet", None, run=folder).read([])
    with pytest.raises(UsageError, match="--embeddings FILE"):
        Files(None, None).read([])
    with pytest.raises(DataError, match="recveil train"):
        Files(None, None, run=folder / "nothing").read([])
