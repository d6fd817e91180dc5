"""The two kinds of formats: tables with named columns, and files of named arrays.

A format is what one file of this folder offers under `FORMAT` (or `FORMATS`); `registry` finds it by the ending of a
path. Writers get a temporary path and, where the input has the same format, the input file: whatever is not a vector is
copied from there.
"""

from __future__ import annotations

import tokenize
import zipfile
import zlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from recveil.core.errors import UsageError

__all__ = ["DAMAGE_ERRORS", "PACKED_ENDINGS", "ArrayFormat", "ArrayWriter", "TableFormat", "cast_vectors"]

PACKED_ENDINGS = (".gz", ".bz2")

DAMAGE_ERRORS = (
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    EOFError,
    OSError,
    OverflowError,
    MemoryError,
    RecursionError,
    RuntimeError,
    SyntaxError,
    AttributeError,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)
"""What libraries raise on damaged files."""


@dataclass(frozen=True)
class TableFormat:
    """A format of tables.

    Attributes:
        name: the format as people call it.
        endings: endings of its files, in lower case.
        read: reads a whole table; the columns of a text format come as text.
        write: writes a table to the first path, in the form of the file at the second one; None if it is only read.
        is_text: numbers are written as text, and columns that were read stay as they were spelled.
        packs: files may be packed as .gz or .bz2.
        keeps_types: numbers have a type, which is kept when they are written.
        id_column: column of the ids in a format that names none.
    """

    name: str
    endings: tuple[str, ...]
    read: Callable[[Path], pa.Table]
    write: Callable[[Path, pa.Table, Path | None], None] | None
    is_text: bool = False
    packs: bool = False
    keeps_types: bool = False
    id_column: str = ""


class ArrayWriter(Protocol):
    """Writes named arrays to a path."""

    def __call__(
        self, path: Path, arrays: Mapping[str, NDArray[Any]], *, original: Path | None, dropped: Collection[str]
    ) -> None:
        """Write a copy of the original in which these arrays are replaced and those are left out, or a new file."""


@dataclass(frozen=True)
class ArrayFormat:
    """A format of named arrays.

    Attributes:
        name: the format as people call it.
        endings: endings of its files, in lower case.
        list_arrays: lists the shapes of the arrays by name, without reading them.
        load_array: loads one array; numbers that NumPy does not know become 32-bit floats.
        write_arrays: writes arrays, in the types that they have in the original.
        holds_ids: a new file can hold ids beside the vectors.
        holds_text: ids may be text.
        needs_original: files are only written as copies of a file of this format.
        package: optional package that it needs, in the extra `hdf5`.
    """

    name: str
    endings: tuple[str, ...]
    list_arrays: Callable[[Path], dict[str, tuple[int, ...]]]
    load_array: Callable[[Path, str], NDArray[Any]]
    write_arrays: ArrayWriter
    holds_ids: bool = True
    holds_text: bool = True
    needs_original: bool = False
    package: str = ""


def cast_vectors(x: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Cast defended vectors to the type of the original; whole numbers become 32-bit floats.

    Raises:
        UsageError: a number is too large for the type.
    """
    if not np.issubdtype(dtype, np.floating):
        return np.ascontiguousarray(x, dtype=np.float32)
    with np.errstate(over="ignore"):
        cast = np.ascontiguousarray(x, dtype=dtype)
    if not np.isfinite(cast).all():
        raise UsageError(
            f"The defended vectors hold numbers up to {float(np.abs(x).max()):.1e}, which do not fit into {dtype}. "
            "Give the vectors as 32-bit floats."
        )
    return cast
