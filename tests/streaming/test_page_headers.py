"""Headers and levels of data pages, as Arrow writes them and as they must not be believed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from recveil.streaming.page_headers import OtherPageError, holds_full_lists, is_single_run, read_page_header


def write_page(path: Path, sizes: list[int], **options: object) -> tuple[bytes, bytes]:
    """Write lists of these sizes as one page; return the bytes from its header on and the repetition levels."""
    lists = pa.ListArray.from_arrays(np.cumsum([0, *sizes]).astype(np.int32), np.arange(sum(sizes), dtype=np.float32))
    pq.write_table(pa.table({"x": lists}), path, compression="none", use_dictionary=False, **options)
    page = path.read_bytes()[pq.read_metadata(path).row_group(0).column(0).data_page_offset :]
    header = read_page_header(page[:100])
    levels = page[header.length :]
    return page, levels[4 : 4 + int.from_bytes(levels[:4], "little")]


def test_a_header_tells_the_sizes_of_the_page(tmp_path: Path) -> None:
    page, levels = write_page(tmp_path / "x.parquet", [4] * 100)
    header = read_page_header(page[:100])
    assert header.n_values == 400
    assert header.compressed_size == header.uncompressed_size > 1_600 + len(levels)
    numbers = page[header.length :][header.compressed_size - 1_600 : header.compressed_size]
    np.testing.assert_array_equal(np.frombuffer(numbers, np.float32), np.arange(400))


@pytest.mark.parametrize("length", [0, 1, 5, 12])
def test_a_cut_header_is_refused(tmp_path: Path, length: int) -> None:
    page, _ = write_page(tmp_path / "x.parquet", [4] * 100)
    with pytest.raises(OtherPageError):
        read_page_header(page[:length])


def test_pages_of_the_second_version_are_refused(tmp_path: Path) -> None:
    with pytest.raises(OtherPageError):
        write_page(tmp_path / "x.parquet", [4] * 100, data_page_version="2.0")


@pytest.mark.parametrize("d", [1, 2, 3, 5, 7, 8, 9, 10, 15, 16, 17, 33, 64, 100, 129])
@pytest.mark.parametrize("rows", [1, 2, 37, 1_000])
def test_lists_of_one_size_are_full(tmp_path: Path, d: int, rows: int) -> None:
    _, levels = write_page(tmp_path / "x.parquet", [d] * rows)
    assert holds_full_lists(levels, rows * d, d, first=0)
    assert not holds_full_lists(levels, rows * d, d + 1, first=0) or rows == 1
    assert rows == 1 or d == 1 or not holds_full_lists(levels, rows * d, d, first=1)


@pytest.mark.parametrize("d", [2, 8, 10, 64])
@pytest.mark.parametrize("row", [0, 1, 500, 998])
def test_one_list_of_another_size_is_found(tmp_path: Path, d: int, row: int) -> None:
    sizes = [d] * 1_000
    sizes[row], sizes[row + 1] = d - 1, d + 1
    _, levels = write_page(tmp_path / "x.parquet", sizes)
    assert not holds_full_lists(levels, 1_000 * d, d, first=0)


def test_levels_that_end_too_early_are_not_full(tmp_path: Path) -> None:
    _, levels = write_page(tmp_path / "x.parquet", [64] * 100)
    assert not holds_full_lists(levels[:-2], 6_400, 64, first=0)
    assert not holds_full_lists(levels, 6_464, 64, first=0)
    assert not holds_full_lists(b"", 64, 64, first=0)


def test_a_page_may_begin_within_a_list(tmp_path: Path) -> None:
    _, levels = write_page(tmp_path / "x.parquet", [64] * 100)
    rest = bytes([50 << 1, 1]) + levels  # a run of 50 numbers that go on with a list
    assert holds_full_lists(rest, 6_450, 64, first=14)
    assert not holds_full_lists(rest, 6_450, 64, first=15)


def test_a_single_run_has_one_level_for_all_values() -> None:
    assert is_single_run(bytes([100 << 1 & 127 | 128, 1, 3]), 100, 3)
    assert not is_single_run(bytes([100 << 1 & 127 | 128, 1, 3]), 101, 3)
    assert not is_single_run(bytes([100 << 1 & 127 | 128, 1, 2]), 100, 3)
    assert not is_single_run(bytes([20, 3, 20, 2]), 10, 3)
    assert not is_single_run(b"", 1, 3)
