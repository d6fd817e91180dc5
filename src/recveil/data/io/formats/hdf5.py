"""HDF5 files, the weights of Keras among them. Links to other files are not followed."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recveil.core.errors import DataError, UsageError
from recveil.core.extras import import_extra
from recveil.data.io.formats.format_types import DAMAGE_ERRORS, ArrayFormat, cast_vectors

__all__ = ["FORMAT", "list_datasets", "load_dataset", "write_datasets"]


def list_datasets(path: Path) -> dict[str, tuple[int, ...]]:
    """List the arrays in all groups by their path, with their shapes.

    Raises:
        DataError: the file is damaged.
    """
    h5py = import_extra("h5py", "hdf5", f"read {path.name}")
    shapes: dict[str, tuple[int, ...]] = {}

    def add_shape(name: str, entry: Any) -> None:
        # Numbers that lie in other files are not read.
        if isinstance(entry, h5py.Dataset) and entry.shape is not None and not entry.is_virtual and not entry.external:
            shapes[name] = tuple(entry.shape)

    try:
        with h5py.File(path, "r", locking=False) as file:
            file.visititems(add_shape)
    except DAMAGE_ERRORS as error:
        raise _refuse_damage(path) from error
    return shapes


def load_dataset(path: Path, name: str) -> NDArray[Any]:
    """Load one array; text comes as text."""
    h5py = import_extra("h5py", "hdf5", f"read {path.name}")
    try:
        with h5py.File(path, "r", locking=False) as file:
            dataset = file[name]
            is_text = h5py.check_string_dtype(dataset.dtype) is not None
            return np.array(dataset.asstr()[()], dtype=str) if is_text else np.asarray(dataset[()])
    except DAMAGE_ERRORS as error:
        raise _refuse_damage(path) from error


def write_datasets(
    path: Path, arrays: Mapping[str, NDArray[Any]], *, original: Path | None, dropped: Collection[str]
) -> None:
    """Write a new file, or a copy of the original with other numbers in these arrays."""
    h5py = import_extra("h5py", "hdf5", f"write {path.name}")
    if original is not None:
        shutil.copyfile(original, path)
    with h5py.File(path, "w" if original is None else "r+", locking=False) as file:
        for name, x in arrays.items():
            if original is None:
                file.create_dataset(name, data=x.astype(h5py.string_dtype()) if x.dtype.kind == "U" else x)
                continue
            if file[name].dtype.kind != "f":
                raise UsageError(f"'{name}' holds whole numbers, and defended vectors are fractions. Write .parquet.")
            file[name][...] = cast_vectors(x, file[name].dtype)
        for name in dropped:
            file[name][...] = np.zeros((), file[name].dtype) if file[name].dtype.kind != "O" else ""
            del file[name]


def _refuse_damage(path: Path) -> DataError:
    return DataError(f"{path} is not a whole HDF5 file of plain numbers or text. Write it again.")


FORMAT = ArrayFormat("HDF5", (".h5", ".hdf5"), list_datasets, load_dataset, write_datasets, package="h5py")
