"""Ranges of rows are those of the file, a copy has its type, and files that are no tables are refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from recveil.core.errors import DataError
from recveil.streaming.npy_files import read_npy_header, read_npy_rows, write_npy_header


@pytest.mark.parametrize("dtype", ["<f4", "<f8", "<f2"])
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


@pytest.mark.parametrize("array", [np.zeros(3), np.zeros((2, 2), np.int64), np.asfortranarray(np.eye(3, 4))])
def test_other_arrays_are_refused(tmp_path: Path, array: np.ndarray) -> None:
    np.save(tmp_path / "x.npy", array)
    with pytest.raises(DataError, match="no row-major table of floats"):
        read_npy_header(tmp_path / "x.npy")
    (tmp_path / "x.npy").write_bytes(b"cut off")
    with pytest.raises(DataError, match="not a whole .npy file"):
        read_npy_header(tmp_path / "x.npy")
