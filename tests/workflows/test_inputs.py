from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from recveil.core.errors import DataError, UsageError
from recveil.data.io.release_files import write_vectors
from recveil.workflows.inputs import InputFiles, count_activity, summarize_input
from recveil.workflows.large_inputs import open_large_table


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_vectors(tmp_path / "users.parquet", "user_id", np.arange(40), np.eye(40, 3, dtype=np.float32))
    columns = {"user_id": np.arange(40), "gender": ["F", "M"] * 20, "age": np.linspace(18, 60, 40)}
    pq.write_table(pa.table(columns), tmp_path / "attributes.parquet")
    return tmp_path


@pytest.fixture
def files(folder: Path) -> InputFiles:
    return InputFiles(folder / "users.parquet", folder / "attributes.parquet", numeric=["age"])


def test_a_run_folder_stands_for_its_two_files(folder: Path) -> None:
    files = InputFiles(None, None, run=folder)
    vectors, targets, _ = files.read(["gender"])
    assert [t.name for t in targets] == ["gender"]
    summary = summarize_input(files, vectors)
    assert (summary.name, summary.n_users, summary.d) == (folder.name, 40, 3)


def test_without_a_target_all_classes_are_read_and_numbers_on_request(files: InputFiles) -> None:
    assert [t.name for t in files.read([])[1]] == ["gender"]
    assert [t.name for t in files.read([], numbers=True)[1]] == ["gender", "age"]
    with pytest.raises(DataError, match="'age' is a number"):
        files.read(["age"])
    cut = replace(files, numeric=(), bins={"age": [35, 45]})
    assert cut.read(["age"])[1][0].labels == ("<35", "35-44", "45+")


def test_files_or_a_folder_but_not_both(folder: Path) -> None:
    with pytest.raises(UsageError, match="not both"):
        InputFiles(folder / "users.parquet", None, run=folder).read([])
    with pytest.raises(UsageError, match="table of user vectors"):
        InputFiles(None, None).read([])
    with pytest.raises(DataError, match="recveil train"):
        InputFiles(None, None, run=folder / "nothing").read([])


def test_an_earlier_table_is_read_in_the_order_of_this_one(files: InputFiles, folder: Path) -> None:
    vectors, _, _ = files.read(["gender"])
    earlier = np.arange(120, dtype=np.float32).reshape(40, 3)
    write_vectors(folder / "before.parquet", "user_id", np.arange(40)[::-1], earlier)
    np.testing.assert_array_equal(files.read_earlier(folder / "before.parquet", vectors), earlier[::-1])
    write_vectors(folder / "wide.parquet", "user_id", np.arange(40), np.ones((40, 4), np.float32))
    with pytest.raises(DataError, match="have 4 numbers and the new ones 3"):
        files.read_earlier(folder / "wide.parquet", vectors)


def test_activity_is_counted_where_interactions_are_known(files: InputFiles, folder: Path) -> None:
    vectors, _, _ = files.read(["gender"])
    assert count_activity(files, vectors) is None
    pq.write_table(pa.table({"user_id": [3, 3, 7], "item_id": [1, 2, 1]}), folder / "log.parquet")
    counts = count_activity(replace(files, interactions=folder / "log.parquet"), vectors)
    assert (counts[3], counts[7], counts.sum()) == (2, 1, 3)


@pytest.mark.parametrize("stream", [False, True])
def test_an_array_without_ids_is_matched_by_row_number_only_on_request(folder: Path, *, stream: bool) -> None:
    np.save(folder / "x.npy", np.eye(40, 3, dtype=np.float32))
    files = InputFiles(folder / "x.npy", folder / "attributes.parquet", stream=stream)

    def read(files: InputFiles) -> None:
        open_large_table(files, ["gender"]) if stream else files.read(["gender"])

    with pytest.raises(UsageError, match="`ids` row-number"):
        read(files)
    read(replace(files, ids="row-number"))


def test_labels_of_a_run_are_kept_as_they_were_read_before(folder: Path) -> None:
    columns = {"user_id": np.arange(40), "occupation": ["none", "writer"] * 20}
    pq.write_table(pa.table(columns), folder / "attributes.parquet")
    [target] = InputFiles(None, None, run=folder).read(["occupation"])[1]
    assert target.labels == ("none", "writer")
    [target] = InputFiles(folder / "users.parquet", folder / "attributes.parquet").read(["occupation"])[1]
    assert target.labels == ("writer",)
