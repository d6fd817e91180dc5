from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from recveil.core.errors import RecveilError, UsageError
from recveil.data.io.vector_output import check_vector_output, write_embeddings
from recveil.data.io.vectors import read_embeddings

X = np.array([[0.1, -2.0], [3.5, 0.25], [1e-7, 4.0]], dtype=np.float32)


def save(path: Path, **columns: object) -> Path:
    vectors = pa.array(X.tolist(), pa.list_(pa.float32(), 2))
    pq.write_table(pa.table({"user_id": ["u3", "u1", "u2"], "embedding": vectors, **columns}), path)
    return path


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("out.npy", "lose them"),
        ("out.safetensors", "lose them"),
        ("out.xlsx", "Cannot tell how to write"),
        ("e.parquet/out.parquet", "is a file, not a folder"),
        ("out.csv", "'tags' cannot be written"),
    ],
)
def test_a_refused_output_leaves_nothing_behind(tmp_path: Path, name: str, message: str) -> None:
    path = save(tmp_path / "e.parquet", tags=[[1], [2], [3]])
    vectors = read_embeddings(path)
    with pytest.raises(RecveilError, match=message):
        write_embeddings(tmp_path / name, vectors, X)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["e.parquet"]


def test_the_shape_must_stay(tmp_path: Path) -> None:
    vectors = read_embeddings(save(tmp_path / "e.parquet"))
    with pytest.raises(UsageError, match="shape"):
        write_embeddings(tmp_path / "out.parquet", vectors, X[:2])
    assert check_vector_output(tmp_path / "out.parquet", vectors) == tmp_path / "out.parquet"
    assert not (tmp_path / "out.parquet").exists()


@pytest.mark.parametrize("form", ["list", "columns"])
def test_cells_of_others_are_written_as_they_were_read(tmp_path: Path, form: str) -> None:
    names, cells = ("embedding", '"[0.5, 1.5]"') if form == "list" else ("emb_0,emb_1", "0.5,1.5")
    others = ["1.10,1234567890123456.75,NaN,plain text", '1.50,-0,nan,"a, ""b"""', "+1,1e3,, padded "]
    lines = [f"user_id,price,{names},size,score,note"]
    lines += [f"0{row},{price},{cells},{rest}" for row, (price, rest) in enumerate(o.split(",", 1) for o in others)]
    (tmp_path / "e.csv").write_text("\n".join(lines) + "\n")
    vectors = read_embeddings(tmp_path / "e.csv")
    write_embeddings(tmp_path / "out.csv", vectors, vectors.x)
    assert (tmp_path / "out.csv").read_text() == (tmp_path / "e.csv").read_text()
    # In a table with types, numbers stay numbers.
    write_embeddings(tmp_path / "out.parquet", vectors, vectors.x)
    assert pq.read_table(tmp_path / "out.parquet").schema.field("size").type == pa.float64()
