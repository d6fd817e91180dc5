"""Keras models (`.keras`): a zip file with the weights as HDF5. No layer is built and no code of the model runs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from recveil.core.errors import DataError
from recveil.core.files import make_temporary_folder
from recveil.data.io.formats.format_types import DAMAGE_ERRORS, ArrayFormat
from recveil.data.io.formats.hdf5 import list_datasets, load_dataset, write_datasets
from recveil.data.io.formats.zip_files import copy_zip, read_member

__all__ = ["FORMAT"]

WEIGHTS_MEMBER = "model.weights.h5"


def _list_arrays(path: Path) -> dict[str, tuple[int, ...]]:
    with _unpack_weights(path) as weights:
        return list_datasets(weights)


def _load_array(path: Path, name: str) -> NDArray[Any]:
    with _unpack_weights(path) as weights:
        return load_dataset(weights, name)


def _write_arrays(
    path: Path, arrays: Mapping[str, NDArray[Any]], *, original: Path | None, dropped: Collection[str]
) -> None:
    assert original is not None, "checked before: a model is not made of a table"
    with _unpack_weights(original) as weights:
        changed = weights.with_name("changed.h5")
        write_datasets(changed, arrays, original=weights, dropped=dropped)
        copy_zip(original, path, {WEIGHTS_MEMBER: changed})


@contextmanager
def _unpack_weights(path: Path) -> Iterator[Path]:
    with make_temporary_folder() as folder:
        weights = folder / WEIGHTS_MEMBER
        try:
            weights.write_bytes(read_member(path, WEIGHTS_MEMBER))
        except DAMAGE_ERRORS as error:
            if isinstance(error, DataError):
                raise
            raise DataError(f"{path} is not a whole Keras model. Save it again with model.save.") from error
        yield weights


FORMAT = ArrayFormat(
    "Keras", (".keras",), _list_arrays, _load_array, _write_arrays, needs_original=True, package="h5py"
)
