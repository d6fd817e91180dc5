"""Vectors read from pages are those that Arrow reads, and other pages are left to Arrow."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from recveil.core.errors import DataError
from recveil.core.types import FloatArray
from recveil.data.io.vectors import Layout
from recveil.streaming.block_table import open_table
from recveil.streaming.vector_pages import read_vector_batches

ROWS = 3_000


def make_vectors(d: int = 20) -> FloatArray:
    return np.random.default_rng(0).standard_normal((ROWS, d)).astype(np.float32)


def make_table(lists: pa.Array) -> pa.Table:
    return pa.table({"user_id": np.arange(len(lists)), "embedding": lists})


def read_both(path: Path, d: int, rows: int = 256) -> list[tuple[pa.RecordBatch, FloatArray | None]]:
    groups = range(pq.read_metadata(path).num_row_groups)
    return list(read_vector_batches(path, groups, ["user_id"], Layout(("embedding",), "user_id"), d, rows))


@pytest.mark.parametrize("codec", ["none", "zstd", "snappy", "gzip", "brotli"])
@pytest.mark.parametrize("d", [1, 7, 20, 64])
@pytest.mark.parametrize("kind", ["fixed", "list", "large_list"])
def test_pages_hold_the_vectors(tmp_path: Path, codec: str, d: int, kind: str) -> None:
    x = make_vectors(d)
    flat = pa.array(x.reshape(-1))
    types = {
        "fixed": pa.list_(pa.float32(), d),
        "list": pa.list_(pa.float32()),
        "large_list": pa.large_list(pa.float32()),
    }
    lists = pa.FixedSizeListArray.from_arrays(flat, d).cast(types[kind])
    path = tmp_path / "x.parquet"
    options = {"compression": codec, "use_dictionary": False, "row_group_size": 1_100, "data_page_size": 5_000}
    pq.write_table(make_table(lists), path, **options)
    batches = read_both(path, d)
    assert all(vectors is not None for _, vectors in batches)
    np.testing.assert_array_equal(np.concatenate([vectors for _, vectors in batches]), x)
    ids = np.concatenate([batch.column("user_id").to_numpy() for batch, _ in batches])
    np.testing.assert_array_equal(ids, np.arange(ROWS))
    assert max(len(batch) for batch, _ in batches) == 256
    assert batches[0][0].schema.names == ["user_id"]


def test_the_column_may_have_dots_in_its_name(tmp_path: Path) -> None:
    x = make_vectors()
    table = make_table(pa.FixedSizeListArray.from_arrays(x.reshape(-1), 20)).rename_columns(["user_id", "a.b"])
    pq.write_table(table, tmp_path / "x.parquet", use_dictionary=False)
    batches = list(read_vector_batches(tmp_path / "x.parquet", [0], ["user_id"], Layout(("a.b",), "user_id"), 20, ROWS))
    np.testing.assert_array_equal(batches[0][1], x)


@pytest.mark.parametrize(
    "options",
    [
        {"data_page_version": "2.0"},
        {"use_dictionary": True},
        {"compression": "lz4"},
        {"column_encoding": {"embedding.list.element": "BYTE_STREAM_SPLIT"}},
    ],
)
def test_pages_of_other_forms_are_left_to_arrow(tmp_path: Path, options: dict[str, object]) -> None:
    x = make_vectors()
    path = tmp_path / "x.parquet"
    pq.write_table(
        make_table(pa.FixedSizeListArray.from_arrays(x.reshape(-1), 20)), path, **{"use_dictionary": False, **options}
    )
    assert all(vectors is None for _, vectors in read_both(path, 20))
    table = open_table(path)
    read = [block.x for span in table.list_spans() for block in table.read_blocks(span, ["user_id"])]
    np.testing.assert_array_equal(np.concatenate(read), x)


def test_numbers_of_64_bits_are_left_to_arrow(tmp_path: Path) -> None:
    x = make_vectors().astype(np.float64)
    pq.write_table(make_table(pa.FixedSizeListArray.from_arrays(x.reshape(-1), 20)), tmp_path / "x.parquet")
    assert all(vectors is None for _, vectors in read_both(tmp_path / "x.parquet", 20))


def test_arrow_goes_on_where_pages_change(tmp_path: Path) -> None:
    """A missing number far down is found; the rows before it come once."""
    x = make_vectors()
    missing = np.zeros(x.size, dtype=bool)
    missing[-7] = True
    path = tmp_path / "x.parquet"
    lists = pa.FixedSizeListArray.from_arrays(pa.array(x.reshape(-1), mask=missing), 20)
    pq.write_table(make_table(lists), path, use_dictionary=False, data_page_size=5_000)
    batches = read_both(path, 20)
    by_pages = [vectors is not None for _, vectors in batches]
    assert by_pages[0]
    assert not by_pages[-1]
    ids = np.concatenate([batch.column("user_id").to_numpy() for batch, _ in batches])
    np.testing.assert_array_equal(ids, np.arange(ROWS))
    table = open_table(path)
    with pytest.raises(DataError, match="missing numbers"):
        list(table.read_blocks(table.list_spans()[0], ["user_id"]))


def test_lists_of_uneven_sizes_with_the_same_sum_are_refused(tmp_path: Path) -> None:
    x = make_vectors()
    ends = np.arange(0, x.size + 1, 20, dtype=np.int32)
    ends[2_500] += 1
    path = tmp_path / "x.parquet"
    pq.write_table(make_table(pa.ListArray.from_arrays(ends, x.reshape(-1))), path, use_dictionary=False)
    table = open_table(path)
    with pytest.raises(DataError):
        list(table.read_blocks(table.list_spans()[0], ["user_id"]))


@pytest.mark.parametrize("codec", ["none", "zstd", "snappy"])
def test_damaged_pages_are_read_as_arrow_reads_them(tmp_path: Path, codec: str) -> None:
    """Either both find the same numbers, or it is an error."""
    path, rng = tmp_path / "x.parquet", np.random.default_rng(0)
    lists = pa.FixedSizeListArray.from_arrays(make_vectors().reshape(-1), 20)
    pq.write_table(make_table(lists), path, use_dictionary=False, compression=codec, data_page_size=5_000)
    column, whole = pq.read_metadata(path).row_group(0).column(1), path.read_bytes()
    n_errors = 0
    for damaged in range(60):
        data = bytearray(whole)
        first = column.data_page_offset + (rng.integers(column.total_compressed_size) if damaged > 30 else damaged)
        data[first : first + 8] = rng.bytes(8)
        path.write_bytes(bytes(data))
        table = open_table(path)
        try:
            read = np.concatenate([b.x for s in table.list_spans() for b in table.read_blocks(s, ["user_id"])])
        except DataError:
            n_errors += 1
            continue
        with pq.ParquetFile(path) as file:
            expected = file.read_row_group(0).column("embedding").combine_chunks().flatten().to_numpy()
        assert read.tobytes() == expected.tobytes()
    assert n_errors > 5
