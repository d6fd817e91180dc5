"""Vectors in files: every form comes back as it went in, and every bad one is refused in one sentence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from safetensors.torch import load_file, save_file

from recveil.core.errors import DataError, UsageError
from recveil.data.io.vector_output import write_embeddings
from recveil.data.io.vectors import read_embeddings

X = np.array([[0.1, -2.0], [3.5, 0.25], [1e-7, 4.0]], dtype=np.float32)
IDS = ["u3", "u1", "u2"]


def lists(x: np.ndarray = X, kind: pa.DataType | None = None) -> pa.Array:
    return pa.array(x.tolist(), kind or pa.list_(pa.float32(), x.shape[1]))


def save(path: Path, **columns: object) -> Path:
    pq.write_table(pa.table(columns), path)
    return path


def check_refused(path: Path, message: str, **options: object) -> None:
    with pytest.raises(DataError, match=message) as caught:
        read_embeddings(path, **options)
    assert "\n" not in str(caught.value)


KINDS = [
    pa.list_(pa.float32(), 2),
    pa.list_(pa.float32()),
    pa.list_(pa.float64()),
    pa.large_list(pa.float32()),
    pa.list_(pa.float64(), 2),
]


@pytest.mark.parametrize("kind", KINDS)
def test_parquet_with_lists_keeps_ids_order_types_and_other_columns(tmp_path: Path, kind: pa.DataType) -> None:
    path = save(
        tmp_path / "e.parquet", user_id=pa.array([30, 10, 20], pa.int32()), embedding=lists(kind=kind), n=[1, 2, 3]
    )
    vectors = read_embeddings(path)
    np.testing.assert_array_equal(vectors.x, X)
    assert vectors.x.dtype == np.float32
    assert vectors.ids.to_pylist() == [30, 10, 20]
    write_embeddings(tmp_path / "out.parquet", vectors, X * 2)
    before, after = pq.read_table(path), pq.read_table(tmp_path / "out.parquet")
    assert after.schema.types == before.schema.types
    assert after.drop_columns(["embedding"]).equals(before.drop_columns(["embedding"]))
    np.testing.assert_array_equal(read_embeddings(tmp_path / "out.parquet").x, X * 2)


def test_parquet_with_numbered_columns_in_any_order(tmp_path: Path) -> None:
    x = np.arange(24, dtype=np.float32).reshape(2, 12)
    columns = {f"emb_{j}": x[:, j] for j in reversed(range(12))}
    path = save(tmp_path / "e.parquet", user_id=["a", "b"], **columns)
    vectors = read_embeddings(path)
    np.testing.assert_array_equal(vectors.x, x)
    write_embeddings(tmp_path / "out.parquet", vectors, x + 1)
    after = pq.read_table(tmp_path / "out.parquet")
    assert after.column_names == pq.read_table(path).column_names
    np.testing.assert_array_equal(after.column("emb_11"), x[:, 11] + 1)


def test_many_chunks_are_read_whole(tmp_path: Path) -> None:
    x = np.random.default_rng(0).standard_normal((1000, 3)).astype(np.float32)
    table = pa.table({"user_id": np.arange(1000), "embedding": lists(x)})
    pq.write_table(table, tmp_path / "e.parquet", row_group_size=7)
    np.testing.assert_array_equal(read_embeddings(tmp_path / "e.parquet").x, x)


@pytest.mark.thorough
@pytest.mark.parametrize("ending", [".csv", ".tsv"])
@pytest.mark.parametrize("form", ["list", "columns"])
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(x=hnp.arrays(np.float32, (2, 3), elements=st.floats(width=32, allow_nan=False, allow_infinity=False)))
def test_text_files_carry_every_number_exactly(tmp_path: Path, ending: str, form: str, x: np.ndarray) -> None:
    columns = {"embedding": lists(x)} if form == "list" else {f"emb_{j}": x[:, j] for j in range(3)}
    given_as = save(tmp_path / "e.parquet", user_id=["007", "7"], **columns, note=["p, q", None])
    write_embeddings(tmp_path / f"one{ending}", read_embeddings(given_as), x)
    vectors = read_embeddings(tmp_path / f"one{ending}")
    np.testing.assert_array_equal(vectors.x, x)
    assert vectors.ids.to_pylist() == ["007", "7"]
    write_embeddings(tmp_path / f"two{ending}", vectors, x)
    assert (tmp_path / f"two{ending}").read_bytes() == (tmp_path / f"one{ending}").read_bytes()


@pytest.mark.parametrize("cell", ['"[0.5, 1]"', "[0.5 1]", '"0.5,1"', "0.5 1", "0.5;1"])
def test_lists_written_as_text_are_understood(tmp_path: Path, cell: str) -> None:
    path = tmp_path / "e.csv"
    path.write_text(f"user_id,embedding\n1,{cell}\n2,{cell}\n")
    np.testing.assert_array_equal(read_embeddings(path).x, [[0.5, 1], [0.5, 1]])


def write_npy(path: Path) -> Path:
    np.save(path, np.array([30, 10, 20]))
    return path


def write_lines(path: Path) -> Path:
    path.write_text("30\n10\n20\n")
    return path


def write_csv(path: Path) -> Path:
    path.write_text("user_id\n30\n10\n20\n")
    return path


@pytest.mark.parametrize(("name", "write"), [("i.npy", write_npy), ("i.txt", write_lines), ("i.csv", write_csv)])
def test_npy_with_ids_beside_it(tmp_path: Path, name: str, write: Callable[[Path], Path]) -> None:
    np.save(tmp_path / "e.npy", X)
    vectors = read_embeddings(tmp_path / "e.npy", write(tmp_path / name))
    assert vectors.ids.to_pylist() == [30, 10, 20]
    write_embeddings(tmp_path / "out.npy", vectors, X + 1)
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), X + 1)
    write_embeddings(tmp_path / "out.parquet", vectors, X + 1)
    again = read_embeddings(tmp_path / "out.parquet")
    assert again.ids.to_pylist() == [30, 10, 20]
    np.testing.assert_array_equal(again.x, X + 1)


def test_rows_are_numbered_only_on_request(tmp_path: Path) -> None:
    np.save(tmp_path / "e.npy", X.astype(np.float64))
    save_file({"embedding": torch.tensor(X), "names": torch.tensor([3, 1, 2])}, tmp_path / "e.safetensors")
    for name in ("e.npy", "e.safetensors"):
        with pytest.raises(UsageError, match="by `ids`, or give `ids` row-number"):
            read_embeddings(tmp_path / name)
        with pytest.raises(UsageError, match="no ids of its items"):
            read_embeddings(tmp_path / name, owner="item")
        assert read_embeddings(tmp_path / name, "row-number").ids.to_pylist() == [0, 1, 2]
    vectors = read_embeddings(tmp_path / "e.npy", "row-number", owner="item")
    assert vectors.ids.to_pylist() == [0, 1, 2]
    assert vectors.key == "item_id"
    write_embeddings(tmp_path / "out.npy", vectors, vectors.x)
    assert np.load(tmp_path / "out.npy").dtype == np.float64


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
def test_safetensors_keep_their_other_tensors(tmp_path: Path, dtype: torch.dtype) -> None:
    table = torch.tensor([[0.5, -2.0], [3.5, 0.25], [1.0, 4.0]], dtype=dtype)
    tensors = {"weight": table, "user_id": torch.tensor([3, 1, 2], dtype=torch.int32), "bias": torch.ones(4)}
    save_file(tensors, tmp_path / "e.safetensors")
    vectors = read_embeddings(tmp_path / "e.safetensors")
    np.testing.assert_array_equal(vectors.x, table.float().numpy())
    assert vectors.ids.to_pylist() == [3, 1, 2]
    write_embeddings(tmp_path / "out.safetensors", vectors, vectors.x * 2)
    after = load_file(tmp_path / "out.safetensors")
    assert set(after) == set(tensors)
    assert torch.equal(after["user_id"], tensors["user_id"])
    assert torch.equal(after["weight"].float(), table.float() * 2)


@pytest.mark.parametrize("name", ["user_ids", "ids", "id", "userId", "uid"])
def test_safetensors_ids_are_found_under_their_other_names(tmp_path: Path, name: str) -> None:
    tensors = {"emb_0": torch.tensor(X), name: torch.tensor([3, 1, 2]), "count": torch.tensor([7, 8, 9])}
    save_file(tensors, tmp_path / "e.safetensors")
    vectors = read_embeddings(tmp_path / "e.safetensors")
    assert vectors.ids.to_pylist() == [3, 1, 2]
    # A table called like a numbered column keeps all its columns.
    write_embeddings(tmp_path / "out.parquet", vectors, X)
    again = read_embeddings(tmp_path / "out.parquet")
    assert again.ids.to_pylist() == [3, 1, 2]
    np.testing.assert_array_equal(again.x, X)


def test_safetensors_with_a_named_table_among_several(tmp_path: Path) -> None:
    save_file({"embedding": torch.tensor(X), "other": torch.zeros(2, 2)}, tmp_path / "e.safetensors")
    np.testing.assert_array_equal(read_embeddings(tmp_path / "e.safetensors", "row-number").x, X)
    save_file({"a": torch.tensor(X), "b": torch.zeros(2, 2)}, tmp_path / "two.safetensors")
    check_refused(tmp_path / "two.safetensors", r"2 tables among its arrays \(a \(3 x 2\), b \(2 x 2\)\)")


def test_a_table_becomes_safetensors_with_its_ids(tmp_path: Path) -> None:
    path = save(tmp_path / "e.parquet", userId=[30, 10, 20], embedding=lists())
    write_embeddings(tmp_path / "out.safetensors", read_embeddings(path), X)
    again = read_embeddings(tmp_path / "out.safetensors")
    assert again.ids.to_pylist() == [30, 10, 20]
    np.testing.assert_array_equal(again.x, X)


def test_item_embeddings_have_item_ids(tmp_path: Path) -> None:
    path = save(tmp_path / "e.parquet", item_id=IDS, embedding=lists())
    assert read_embeddings(path, owner="item").ids.to_pylist() == IDS
    check_refused(path, "no column 'user_id'")


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"user": IDS, "vec": lists(), "other": lists()}, "no column 'embedding' and no columns emb_0"),
        ({"id": IDS, "embedding": lists()}, "no column 'user_id'"),
        ({"user_id": IDS, "emb_0": X[:, 0], "emb_2": X[:, 1]}, "no emb_1"),
        ({"user_id": IDS, "emb_1": X[:, 0], "emb_2": X[:, 1]}, "no emb_0"),
        ({"user_id": ["a", "b", "a"], "embedding": lists()}, "1 user more than once, for instance 'a'"),
        ({"user_id": ["a", None, "b"], "embedding": lists()}, "1 rows of .* have no id"),
        ({"user_id": IDS, "embedding": pa.array([[1.0], [1.0, 2.0], [3.0]])}, "'u3' has 1 numbers, that of 'u1' has 2"),
        ({"user_id": IDS, "embedding": pa.array([[1.0], None, [3.0]])}, "'u1' has 0"),
        ({"user_id": IDS, "embedding": pa.array([[], [], []], pa.list_(pa.float32()))}, "at least one"),
        ({"user_id": IDS, "embedding": pa.array([[1.0], [None], [3.0]])}, "1 of the 3 vectors .* user 'u1'"),
        ({"user_id": IDS, "embedding": pa.array([["x"], ["y"], ["z"]])}, "'embedding' .* does not hold numbers"),
        ({"user_id": IDS, "embedding": pa.array([1.0, 2.0, 3.0])}, "holds double, not lists of numbers"),
        ({"user_id": IDS, "emb_0": ["x", "y", "z"]}, "'emb_0' .* does not hold numbers"),
        ({"user_id": IDS, "emb_0": [True, False, True]}, "'emb_0' .* true and false, not numbers"),
        ({"user_id": IDS, "embedding": [[True], [False], [True]]}, "'embedding' .* true and false, not numbers"),
        ({"user_id": pa.array([], pa.int64()), "embedding": lists(np.zeros((0, 2)))}, "no rows"),
    ],
)
def test_bad_tables_are_refused(tmp_path: Path, columns: dict[str, object], message: str) -> None:
    check_refused(save(tmp_path / "e.parquet", **columns), message)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e300])
def test_numbers_that_are_none_are_counted_and_located(tmp_path: Path, bad: float) -> None:
    x = X.astype(np.float64)
    x[1:, 1] = bad
    path = save(tmp_path / "e.parquet", user_id=IDS, embedding=lists(x, pa.list_(pa.float64())))
    check_refused(path, r"2 of the 3 vectors .* the first that of user 'u1'")


def test_a_csv_with_a_word_among_the_numbers(tmp_path: Path) -> None:
    path = tmp_path / "e.csv"
    path.write_text("user_id,emb_0\n1,0.5\n2,many\n")
    check_refused(path, "'emb_0' .* does not hold numbers")
    path.write_text("user_id,emb_0,emb_1\n1,0.5,1\n2,,-0\n")
    check_refused(path, "1 of the 2 vectors .* user '2'")


@pytest.mark.parametrize("name", ["e.parquet", "e.csv", "e.npy", "e.safetensors"])
def test_missing_empty_and_broken_files(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    check_refused(path, "no file")
    path.touch()
    check_refused(path, "is empty")
    path.write_bytes(b"\x93NUMPY\xff\xfe\x00" * 3)
    check_refused(path, str(path))
    check_refused(tmp_path, "is a folder")


@pytest.mark.parametrize("name", ["e.parquet", "e.npy", "e.safetensors"])
def test_truncated_files(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    save(tmp_path / "e.parquet", user_id=IDS, embedding=lists())
    np.save(tmp_path / "e.npy", X)
    save_file({"embedding": torch.tensor(X)}, tmp_path / "e.safetensors")
    path.write_bytes(path.read_bytes()[:-5])
    check_refused(path, "is not a whole")


def test_nothing_is_unpickled(tmp_path: Path) -> None:
    np.save(tmp_path / "e.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    check_refused(tmp_path / "e.npy", "plain numbers")
    np.save(tmp_path / "x.npy", X)
    check_refused(tmp_path / "x.npy", "plain numbers", ids=tmp_path / "e.npy")


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros(3), "its shape is 3"),
        (np.float64(1), "a single number"),
        (np.zeros((0, 4)), "its shape is 0 x 4"),
        (np.zeros((2, 2, 2)), "2 x 2 x 2"),
        (np.array([["a"]]), "not numbers"),
        (np.zeros((1, 1), dtype=complex), "not numbers"),
    ],
)
def test_arrays_that_are_no_table(tmp_path: Path, array: np.ndarray, message: str) -> None:
    np.save(tmp_path / "e.npy", array)
    check_refused(tmp_path / "e.npy", message)


def test_ids_that_do_not_fit_the_rows(tmp_path: Path) -> None:
    np.save(tmp_path / "e.npy", X)
    (tmp_path / "i.csv").write_text("30\n10\n20\n")
    check_refused(tmp_path / "e.npy", "has 2 ids and .* has 3 vectors.* header line", ids=tmp_path / "i.csv")
    (tmp_path / "i.txt").write_text("a\nb\na\n")
    check_refused(tmp_path / "e.npy", "more than once", ids=tmp_path / "i.txt")
    check_refused(tmp_path / "e.npy", "no file", ids=tmp_path / "none.txt")
    path = save(tmp_path / "e.parquet", user_id=IDS, embedding=lists())
    with pytest.raises(UsageError, match="ids of its own"):
        read_embeddings(path, tmp_path / "i.txt")
