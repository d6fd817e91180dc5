from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from recveil.core.errors import DataError, UsageError
from recveil.data.io.formats.word2vec import is_word2vec
from recveil.data.io.vector_output import write_embeddings
from recveil.data.io.vectors import read_embeddings


def test_ids_and_numbers_come_back_as_they_are_written(tmp_path: Path) -> None:
    path = tmp_path / "e.w2v"
    path.write_text("2 3\n007 0.1 -2.0 3.0\nb-7 1e-07 0.25 4.0\n")
    vectors = read_embeddings(path)
    assert vectors.ids.to_pylist() == ["007", "b-7"]
    assert read_embeddings(path, owner="item").ids.to_pylist() == ["007", "b-7"]
    write_embeddings(tmp_path / "out.w2v", vectors, vectors.x)
    assert (tmp_path / "out.w2v").read_text() == path.read_text()
    write_embeddings(tmp_path / "out.vec.gz", vectors, vectors.x)
    np.testing.assert_array_equal(read_embeddings(tmp_path / "out.vec.gz").x, vectors.x)
    assert is_word2vec(path)
    (tmp_path / "table.txt").write_text("user_id\titem_id\n1\t2\n")
    assert not is_word2vec(tmp_path / "table.txt")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("3 2\na 1 2\nb 1 2\n", "announces 3 vectors of 2 numbers, and 2 follow"),
        ("2 2\na 1 2\nb 1\n", "line 3 has 1 numbers"),
        ("1 2\na 1 x\n", "not a number"),
        ("a 1 2\n", "count of vectors"),
    ],
)
def test_wrong_files_are_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "e.vec").write_text(text)
    with pytest.raises(DataError, match=message):
        read_embeddings(tmp_path / "e.vec")


def test_tables_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    vectors = pa.array([[1.0], [2.0]], pa.list_(pa.float32(), 1))
    pq.write_table(pa.table({"user_id": ["a b", "c"], "embedding": vectors}), tmp_path / "e.parquet")
    table = read_embeddings(tmp_path / "e.parquet")
    with pytest.raises(UsageError, match="ids with spaces"):
        write_embeddings(tmp_path / "out.w2v", table, table.x)
    pq.write_table(pa.table({"user_id": ["a", "c"], "embedding": vectors, "n": [1, 2]}), tmp_path / "e.parquet")
    table = read_embeddings(tmp_path / "e.parquet")
    with pytest.raises(UsageError, match="ids and vectors alone"):
        write_embeddings(tmp_path / "out.w2v", table, table.x)
