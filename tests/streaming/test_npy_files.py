"""Ranges of rows are those of the file, a copy has its type, and files that are no tables are refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from recveil.core.errors import DataError
from recveil.streaming.npy_files import read_npy_header, read_npy_rows, write_npy_header


@pytest.mark.parametrize("dtype", ["<f4", "<f8", ">f4"])
def test_rows_and_copies_are_those_of_the_file(tmp_path: Path, dtype: str) -> None:
    x = np.random.default_rng(0).standard_normal((7, 3)).astype(dtype)
    np.save(tmp_path / "x.npy", x)
    header = read_npy_header(tmp_path / "x.npy")
    assert (header.rows, header.d, header.dtype) == (7, 3, np.dtype(dtype))
    np.testing.assert_array_equal(read_npy_rows(tmp_path / "x.npy", header, 2, 4), x[2:6].astype(np.float32))
    with (tmp_path / "copy.npy").open("wb") as file:
        write_npy_header(file, header, 7)
        x.tofile(file)
    copy = np.load(tmp_path / "copy.npy", allow_pickle=False)
    assert copy.dtype == x.dtype
    np.testing.assert_array_equal(copy, x)


def test_numbers_too_large_for_single_precision_become_infinite(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.full((1, 2), 1e300))
    assert np.isinf(read_npy_rows(tmp_path / "x.npy", read_npy_header(tmp_path / "x.npy"), 0, 1)).all()


@pytest.mark.parametrize("dtype", ["u1", "<i8", "<f2"])
def test_whole_numbers_and_short_floats_are_written_as_floats(tmp_path: Path, dtype: str) -> None:
    np.save(tmp_path / "x.npy", np.arange(6, dtype=dtype).reshape(2, 3))
    header = read_npy_header(tmp_path / "x.npy")
    x = read_npy_rows(tmp_path / "x.npy", header, 0, 2)
    with (tmp_path / "copy.npy").open("wb") as file:
        write_npy_header(file, header, 2)
        (x / 4).tofile(file)
    np.testing.assert_array_equal(np.load(tmp_path / "copy.npy"), np.arange(6, dtype=np.float32).reshape(2, 3) / 4)


ARRAYS = [np.zeros(3), np.zeros((2, 2), np.bool_), np.zeros((2, 2), np.complex64), np.asfortranarray(np.eye(3, 4))]


@pytest.mark.parametrize("array", ARRAYS)
def test_other_arrays_are_refused(tmp_path: Path, array: np.ndarray) -> None:
    np.save(tmp_path / "x.npy", array)
    with pytest.raises(DataError, match="no row-major table of numbers"):
        read_npy_header(tmp_path / "x.npy")
    (tmp_path / "x.npy").write_bytes(b"cut off")
    with pytest.raises(DataError, match="not a whole .npy file"):
        read_npy_header(tmp_path / "x.npy")


def with_header(text: str) -> bytes:
    header = text.encode().ljust(118) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(60)


SHAPED = "{'descr': '<f4', 'fortran_order': False, 'shape': (%s, 3), }"
DAMAGED = {
    "cut within brackets": with_header("{'descr': '<f4', 'shape': (5,("),
    "an archive": b"PK\x03\x04" + bytes(200),
    "2^40 rows": with_header(SHAPED % 2**40),
    "2^62 rows": with_header(SHAPED % 2**62),
    "2^63 rows": with_header(SHAPED % 2**63),
    "a negative number of rows": with_header(SHAPED % -5),
    "objects": with_header("{'descr': '|O', 'fortran_order': False, 'shape': (5, 3), }"),
    "another literal": with_header("{1, 2}"),
    "an expression": with_header("__import__('os')"),
    "deep brackets": with_header("(" * 110),
    "nothing": b"",
}


@pytest.mark.parametrize("data", DAMAGED.values(), ids=DAMAGED)
def test_damaged_headers_are_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "x.npy").write_bytes(data)
    with pytest.raises(DataError, match=r"not a whole \.npy file"):
        read_npy_header(tmp_path / "x.npy")


def test_random_damage_to_a_header_never_ends_in_another_error(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((5, 3), np.float32))
    data, rng = (tmp_path / "x.npy").read_bytes(), np.random.default_rng(0)
    assert read_npy_header(tmp_path / "x.npy").dtype == np.float32
    refused = 0
    for _ in range(300):
        damaged = bytearray(data[: rng.integers(1, len(data))] if rng.random() < 0.2 else data)
        for place in rng.integers(0, min(80, len(damaged)), 2):
            damaged[place] = rng.integers(0, 256)
        (tmp_path / "x.npy").write_bytes(damaged)
        try:
            read_npy_header(tmp_path / "x.npy")
        except DataError:
            refused += 1
    assert refused > 250
