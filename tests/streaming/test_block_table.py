"""A table in parts: read without a copy, written as it was, and refused where it does not fit together."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from recveil.core.errors import DataError, UsageError
from recveil.streaming import block_table as module
from recveil.streaming.block_table import Span, Table, open_table
from recveil.streaming.parquet_parts import is_finished
from recveil.streaming.vector_layout import view_as_tensor


def whole(table: Table, columns: list[str]) -> np.ndarray:
    return np.concatenate([block.x for span in table.list_spans() for block in table.read_blocks(span, columns)])


def copied(table: Table, out: Path) -> pa.Table:
    """All parts written with their vectors doubled."""
    out.mkdir()
    for part in table.parts:
        with table.write_part(part, out / part.path.name, "job") as write:
            names = [table.id_column] if table.schema is None else table.schema.names
            for block in table.read_blocks(Span(part, 0, len(part.groups)), names):
                write(block.columns, block.x * 2)
    return pq.read_table(out) if table.schema is not None else None


@pytest.mark.parametrize("span_rows", [1, 500, 10**6])
def test_blocks_are_the_rows_in_order_however_they_are_cut(
    make: Callable[..., Any], span_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make()
    monkeypatch.setattr(module, "SPAN_ROWS", span_rows)
    monkeypatch.setattr(module, "BLOCK_BYTES", 150 * 4 * 5)
    table = open_table(world.path)
    assert (table.rows, table.d, table.id_column, table.other_columns) == (3000, 5, "user_id", ["gender", "age"])
    assert sum(span.rows for span in table.list_spans()) == 3000
    np.testing.assert_array_equal(whole(table, ["gender"]), world.x)
    starts = [block.start for span in table.list_spans() for block in table.read_blocks(span, [])]
    assert starts == sorted(starts)
    assert starts[0] == 0


def test_vectors_are_read_without_a_copy(make: Callable[..., Any]) -> None:
    table = open_table(make().path)
    block = next(table.read_blocks(table.list_spans()[0], []))
    values = block.columns.column("embedding").flatten()
    assert block.x.ctypes.data == values.buffers()[1].address
    assert view_as_tensor(block.x).data_ptr() == block.x.ctypes.data  # although it is read-only


def test_other_columns_and_row_groups_go_through_as_they_are(make: Callable[..., Any], tmp_path: Path) -> None:
    world = make()
    back = copied(open_table(world.path), tmp_path / "out")
    given = pq.read_table(world.path)
    assert back.schema.equals(given.schema)
    for name in ("user_id", "gender", "age"):
        assert back.column(name).equals(given.column(name))
    np.testing.assert_array_equal(np.stack(back.column("embedding").to_pylist()), world.x * 2)
    first, second = (pq.read_metadata(folder / "part-1.parquet") for folder in (world.path, tmp_path / "out"))
    assert first.num_row_groups == second.num_row_groups
    assert is_finished(tmp_path / "out" / "part-1.parquet", "job")
    assert not is_finished(tmp_path / "out" / "part-1.parquet", "another job")


@pytest.mark.parametrize(("blocks", "expected"), [(8, [400, 400, 200]), (2, [200] * 5)])
def test_row_groups_are_those_of_the_table_whatever_the_blocks(
    make: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, blocks: int, expected: list[int]
) -> None:
    monkeypatch.setattr(module, "BLOCK_BYTES", 100 * 4 * 5)
    monkeypatch.setattr(module, "GROUP_BLOCKS", blocks)
    world = make()
    back = copied(open_table(world.path), tmp_path / "out")
    assert back.column("user_id").to_pylist() == world.ids.tolist()
    meta = pq.read_metadata(tmp_path / "out" / "part-1.parquet")
    assert [meta.row_group(i).num_rows for i in range(meta.num_row_groups)] == expected


@pytest.mark.parametrize("form", ["list", "large_list", "double", "numbered"])
def test_other_forms_of_vectors_are_read_and_written_in_their_own(
    make: Callable[..., Any], tmp_path: Path, form: str
) -> None:
    world = make(n=300)
    given = world.table
    kinds = {"list": pa.list_(pa.float32()), "large_list": pa.large_list(pa.float32())}
    kinds["double"] = pa.list_(pa.float64(), 5)
    if form == "numbered":
        given = given.drop_columns(["embedding"])
        for j in range(5):
            given = given.append_column(f"emb_{j}", pa.array(world.x[:, j]))
    else:
        given = given.set_column(1, "embedding", given.column("embedding").cast(kinds[form]))
    pq.write_table(given, tmp_path / "one.parquet")
    table = open_table(tmp_path / "one.parquet")
    np.testing.assert_array_equal(whole(table, []), world.x)
    back = copied(table, tmp_path / "out")
    assert back.schema.equals(given.schema)
    if form == "numbered":
        np.testing.assert_array_equal(back.column("emb_3").to_numpy(), world.x[:, 3] * 2)
    else:
        np.testing.assert_allclose(np.stack(back.column("embedding").to_pylist()), world.x * 2)


def test_an_npy_file_is_read_by_blocks_and_written_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK_BYTES", 64)
    x = np.random.default_rng(0).standard_normal((30, 4))
    np.save(tmp_path / "x.npy", x)
    table = open_table(tmp_path / "x.npy")
    assert len(table.parts[0].groups) > 1
    np.testing.assert_array_equal(whole(table, []), x.astype(np.float32))
    copied(table, tmp_path / "out")
    back = np.load(tmp_path / "out" / "x.npy", allow_pickle=False)
    assert back.dtype == np.float64
    np.testing.assert_allclose(back, x * 2, rtol=1e-6)
    with pytest.raises(DataError, match="2 ids for the 30 vectors"):
        open_table(tmp_path / "x.npy", pa.array([1, 2]))


def test_files_that_differ_are_named(make: Callable[..., Any], tmp_path: Path) -> None:
    world = make()
    odd = world.path / "part-9.parquet"
    lists = pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(8, np.float32)), 4)
    pq.write_table(world.table.slice(0, 2).set_column(1, "embedding", lists), odd)
    with pytest.raises(DataError, match=r"part-9\.parquet have 4 numbers, those in part-0\.parquet 5"):
        open_table(world.path)
    pq.write_table(world.table.drop_columns(["age"]), odd)
    with pytest.raises(DataError, match=r"part-9\.parquet has other columns .* age \(int64\)"):
        open_table(world.path)
    pq.write_table(world.table.append_column("embedding", world.table.column("embedding")), odd)
    with pytest.raises(DataError, match=r"part-9\.parquet has other columns .* occurs twice"):
        open_table(world.path)
    odd.write_bytes(b"PAR1 cut off")
    with pytest.raises(DataError, match=r"part-9\.parquet cannot be read as Parquet"):
        open_table(world.path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="holds no Parquet files"):
        open_table(tmp_path / "empty")
    (tmp_path / "x.csv").write_text("user_id\n")
    with pytest.raises(UsageError, match="is no large table"):
        open_table(tmp_path / "x.csv")


def test_a_vector_that_is_missing_is_an_error(make: Callable[..., Any], tmp_path: Path) -> None:
    world = make(n=30)
    lists = pa.array([None, *world.x[1:].tolist()], pa.list_(pa.float32(), 5))
    pq.write_table(world.table.set_column(1, "embedding", lists), tmp_path / "x.parquet")
    with pytest.raises(DataError, match="have no vector"):
        whole(open_table(tmp_path / "x.parquet"), [])
