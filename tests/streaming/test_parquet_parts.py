"""Parquet files: written with the options they had, hidden ones left alone, broken ones named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from recveil.core.errors import DataError
from recveil.streaming import parquet_parts as parquet
from recveil.streaming.parquet_parts import copy_writer_options, list_part_files, open_parquet, read_batches

ROWS = pa.table({"user_id": np.arange(100), "kind": ["a", "b"] * 50, "x": np.arange(100) / 7})


@pytest.mark.parametrize(("codec", "statistics"), [("none", False), ("snappy", True), ("zstd", ["user_id"])])
def test_a_file_is_written_as_another_was(tmp_path: Path, codec: str, statistics: bool | list[str]) -> None:
    given, again = tmp_path / "a.parquet", tmp_path / "b.parquet"
    pq.write_table(ROWS, given, compression=codec, use_dictionary=["kind"], write_statistics=statistics)
    pq.write_table(ROWS, again, **copy_writer_options(pq.read_metadata(given), ("x",)))
    first, second = (pq.read_metadata(path).row_group(0) for path in (given, again))
    for j in range(3):
        a, b = first.column(j), second.column(j)
        assert (a.compression, a.is_stats_set, set(a.encodings)) == (b.compression, b.is_stats_set, set(b.encodings))


def test_vectors_get_no_dictionary(tmp_path: Path) -> None:
    pq.write_table(ROWS, tmp_path / "a.parquet")
    options = copy_writer_options(pq.read_metadata(tmp_path / "a.parquet"), ("x",))
    assert options["use_dictionary"] == ["user_id", "kind"]


@pytest.mark.parametrize("at_once", [0, 1 << 30])
def test_rows_come_in_order_and_never_of_two_groups(
    tmp_path: Path, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "MAX_UNBUFFERED_BYTES", at_once)
    pq.write_table(ROWS, tmp_path / "a.parquet", row_group_size=40)
    batches = list(read_batches(tmp_path / "a.parquet", [0, 1, 2], ["user_id"], 30))
    assert [len(b) for b in batches] == [30, 10, 30, 10, 20]
    assert pa.Table.from_batches(batches).column("user_id").to_pylist() == list(range(100))


def test_hidden_files_do_not_count(tmp_path: Path) -> None:
    for name in ("b.parquet", "a.pq", ".c.parquet", "_d.parquet", "notes.txt"):
        (tmp_path / name).touch()
    assert [path.name for path in list_part_files(tmp_path)] == ["a.pq", "b.parquet"]


def test_pages_that_are_broken_are_named(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(ROWS, path, compression="snappy")
    with open_parquet(path) as file:
        assert file.num_row_groups == 1
    data = bytearray(path.read_bytes())
    data[4:400] = bytes(396)
    path.write_bytes(data)
    with pytest.raises(DataError, match=r"a\.parquet cannot be read as Parquet"):
        list(read_batches(path, [0], ["user_id"], 100))
