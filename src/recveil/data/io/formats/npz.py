"""The `.npz` archive of named arrays, as NumPy and implicit write it. Nothing in it is unpickled."""

from __future__ import annotations

import io
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from recveil.core.errors import DataError
from recveil.data.io.formats.format_types import DAMAGE_ERRORS, ArrayFormat, cast_vectors
from recveil.data.io.formats.zip_files import copy_zip, list_members, read_member

__all__ = ["FORMAT"]

HEADER_BYTES = 1 << 16
"""Longer headers are refused by NumPy as well."""
_SUFFIX = ".npy"


def _list_arrays(path: Path) -> dict[str, tuple[int, ...]]:
    """List the arrays of numbers or text; Python objects are passed over."""
    try:
        headers = {name.removesuffix(_SUFFIX): _read_header(path, name) for name in list_members(path)}
    except DAMAGE_ERRORS as error:
        raise _refuse_damage(path) from error
    return {name: shape for name, (shape, dtype) in headers.items() if not dtype.hasobject}


def _load_array(path: Path, name: str) -> NDArray[Any]:
    try:
        with io.BytesIO(read_member(path, name + _SUFFIX)) as content:
            return npy_format.read_array(content, allow_pickle=False)
    except DataError:
        raise
    except DAMAGE_ERRORS as error:
        raise _refuse_damage(path) from error


def _write_arrays(
    path: Path, arrays: Mapping[str, NDArray[Any]], *, original: Path | None, dropped: Collection[str]
) -> None:
    if original is None:
        with path.open("wb") as file:
            np.savez(file, allow_pickle=False, **arrays)
        return
    replaced = {}
    for name, x in arrays.items():
        content = io.BytesIO()
        npy_format.write_array(content, cast_vectors(x, _read_header(original, name + _SUFFIX)[1]), allow_pickle=False)
        replaced[name + _SUFFIX] = content.getvalue()
    copy_zip(original, path, replaced, {name + _SUFFIX for name in dropped})


def _read_header(path: Path, member: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
    with io.BytesIO(read_member(path, member, HEADER_BYTES)) as content:
        version = npy_format.read_magic(content)
        read = npy_format.read_array_header_1_0 if version == (1, 0) else npy_format.read_array_header_2_0
        shape, _, dtype = read(content)
    return shape, dtype


def _refuse_damage(path: Path) -> DataError:
    return DataError(f"{path} is not a whole .npz file of plain numbers or text. Write it again.")


FORMAT = ArrayFormat("NumPy .npz", (".npz",), _list_arrays, _load_array, _write_arrays)
