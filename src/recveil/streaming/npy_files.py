"""Vectors in a .npy file: its header, ranges of its rows, and the header and rows of a defended copy."""

from __future__ import annotations

import tokenize
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from recveil.core.errors import DataError

__all__ = ["NpyHeader", "read_npy_header", "read_npy_rows", "write_npy_header"]

_MAGIC = b"\x93NUMPY"

# What NumPy raises on damaged headers, which it reads as Python literals.
_READ_ERRORS = (
    ValueError,
    TypeError,
    KeyError,
    EOFError,
    OSError,
    ArithmeticError,
    SyntaxError,
    MemoryError,
    RecursionError,
    tokenize.TokenError,
)


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

    @property
    def output_dtype(self) -> np.dtype[Any]:
        """Type of the numbers in a defended copy; whole numbers and 16-bit floats become 32-bit floats."""
        is_kept = np.issubdtype(self.dtype, np.floating) and self.dtype.itemsize >= 4
        return self.dtype if is_kept else np.dtype(np.float32)


def read_npy_header(path: Path) -> NpyHeader:
    """Read the header of a file, which must hold a table of numbers and all the rows that the header names."""
    try:
        with path.open("rb") as file:
            if file.read(len(_MAGIC)) != _MAGIC:
                raise ValueError("not a .npy file")
        with np.errstate(over="raise"):  # a header may claim more rows than NumPy can count
            mapped = np.load(path, mmap_mode="r", allow_pickle=False)
    except _READ_ERRORS as error:
        raise DataError(f"{path} is not a whole .npy file of plain numbers. Write it again.") from error
    is_table = isinstance(mapped, np.memmap) and mapped.ndim == 2 and mapped.size and mapped.flags.c_contiguous
    is_number = np.issubdtype(mapped.dtype, np.floating) or np.issubdtype(mapped.dtype, np.integer)
    if not is_table or not is_number or np.issubdtype(mapped.dtype, np.timedelta64):
        raise DataError(f"{path} holds no row-major table of numbers. Write it as floats, with one row for each user.")
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
    """Write the header of a defended copy with this many rows."""
    fields = {"descr": header.output_dtype.str, "fortran_order": False, "shape": (rows, header.d)}
    np.lib.format.write_array_header_2_0(file, fields)
