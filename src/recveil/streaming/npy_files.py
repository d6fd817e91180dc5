"""Vectors in a .npy file: its header, ranges of its rows, and the header of a file of the same type."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from recveil.core.errors import DataError

__all__ = ["NpyHeader", "read_npy_header", "read_npy_rows", "write_npy_header"]


@dataclass(frozen=True)
class NpyHeader:
    """Header of a .npy file.

    Attributes:
        offset: bytes before the first number.
        rows: number of vectors.
        d: dimensions of the vectors.
        dtype: type of the numbers.
    """

    offset: int
    rows: int
    d: int
    dtype: np.dtype[Any]


def read_npy_header(path: Path) -> NpyHeader:
    """Read the header of a file; the file must hold a table of floats."""
    try:
        mapped = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise DataError(f"{path} is not a whole .npy file of plain numbers. Write it again.") from error
    is_table = isinstance(mapped, np.memmap) and mapped.ndim == 2 and mapped.size and mapped.flags.c_contiguous
    if not is_table or not np.issubdtype(mapped.dtype, np.floating):
        raise DataError(f"{path} holds no row-major table of floats. Write it with one row for each user.")
    return NpyHeader(int(mapped.offset), int(mapped.shape[0]), int(mapped.shape[1]), mapped.dtype)


def read_npy_rows(path: Path, header: NpyHeader, start: int, rows: int) -> NDArray[np.float32]:
    """Read rows from `start` on in single precision.

    Args:
        path: the file.
        header: its header.
        start: number of the first row.
        rows: number of rows.

    Returns:
        The rows; numbers too large for single precision are infinite.
    """
    offset = header.offset + start * header.d * header.dtype.itemsize
    mapped = np.memmap(path, header.dtype, "r", offset=offset, shape=(rows, header.d))
    with np.errstate(over="ignore"):
        return np.array(mapped, dtype=np.float32)


def write_npy_header(file: BinaryIO, header: NpyHeader, rows: int) -> None:
    """Write the header of a file with this many rows of the same size and type."""
    fields = {"descr": header.dtype.str, "fortran_order": False, "shape": (rows, header.d)}
    np.lib.format.write_array_header_2_0(file, fields)
