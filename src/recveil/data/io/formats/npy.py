"""The `.npy` file of one array, without ids."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recveil.core.errors import DataError
from recveil.data.io.formats.format_types import DAMAGE_ERRORS, ArrayFormat, cast_vectors
from recveil.data.io.text import check_file

__all__ = ["FORMAT", "load_npy"]

ARRAY_NAME = "embedding"


def load_npy(path: Path) -> NDArray[Any]:
    """Load the array of a `.npy` file.

    Raises:
        DataError: the file is missing, damaged, an archive, or holds Python objects.
    """
    path = check_file(path)
    with path.open("rb") as file:
        if file.read(2) == b"PK":
            raise DataError(f"{path} is an archive of arrays. Give it the ending .npz.")
    try:
        # A mapped file is checked against the size in its header, which is only a claim.
        return np.array(np.load(path, mmap_mode="r", allow_pickle=False))
    except DAMAGE_ERRORS as error:
        raise DataError(f"{path} is not a whole .npy file of plain numbers or text. Write it again.") from error


def _list_arrays(path: Path) -> dict[str, tuple[int, ...]]:
    return {ARRAY_NAME: load_npy(path).shape}


def _load_array(path: Path, name: str) -> NDArray[Any]:
    return load_npy(path)


def _write_arrays(
    path: Path, arrays: Mapping[str, NDArray[Any]], *, original: Path | None, dropped: Collection[str]
) -> None:
    [x] = arrays.values()
    dtype = x.dtype if original is None else load_npy(original).dtype
    with path.open("wb") as file:
        np.save(file, cast_vectors(x, dtype), allow_pickle=False)


FORMAT = ArrayFormat("NumPy .npy", (".npy",), _list_arrays, _load_array, _write_arrays, holds_ids=False)
