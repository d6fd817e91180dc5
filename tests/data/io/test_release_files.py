from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from recveil.core.types import Attribute
from recveil.data.io.release_files import write_attributes, write_lists, write_vectors
from recveil.data.io.user_tables import read_attributes, read_embeddings, read_recommendations


def test_written_files_are_read_back(tmp_path: Path) -> None:
    ids = np.array(["u9", "u1", "u5"], dtype=object)
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    write_vectors(tmp_path / "u.parquet", "user_id", ids, x)
    vectors = read_embeddings(tmp_path / "u.parquet")
    assert vectors.ids.to_pylist() == ids.tolist()
    assert np.array_equal(vectors.x, x)


def test_attributes_come_back_with_the_undisclosed_unknown(tmp_path: Path) -> None:
    gender = Attribute("gender", np.array([0, -1, 1]), ("F", "M"))
    age = Attribute("age", np.full(3, -1), (), values=np.array([20.5, np.nan, 40.0]))
    write_attributes(tmp_path / "a.parquet", np.arange(3), [gender, age])
    back = read_attributes(tmp_path / "a.parquet", np.arange(3), numeric=["age"])
    assert back["gender"].codes.tolist() == [0, -1, 1]
    assert back["gender"].labels == ("F", "M")
    assert np.array_equal(back["age"].values, age.values, equal_nan=True)
    assert pq.read_table(tmp_path / "a.parquet")["age"].null_count == 1


def test_lists_are_ranked_from_one_and_empty_places_left_out(tmp_path: Path) -> None:
    lists = np.array([[2, 0, -1], [1, -1, -1]])
    write_lists(tmp_path / "l.parquet", lists, np.array([7, 8]), np.array([10, 11, 12]))
    assert pq.read_table(tmp_path / "l.parquet")["rank"].to_pylist() == [1, 2, 1]
    back = read_recommendations(tmp_path / "l.parquet", np.array([7, 8]), np.array([10, 11, 12]))
    assert back.tolist() == [[2, 0], [1, -1]]
