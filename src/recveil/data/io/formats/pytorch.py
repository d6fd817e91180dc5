"""Files of `torch.save`: a tensor, a dict of tensors, a state dict, a RecBole checkpoint. Nothing runs in them.

A zip file (what torch writes since 1.6) is read by `closed_pickle`, and written back as a copy in which only the
numbers of the vectors are other ones. The older form is read with `weights_only`.
"""

from __future__ import annotations

import math
import pickle  # nosec B403 - for the name of an error
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from numpy.typing import NDArray

from recveil.core.errors import DataError, UsageError
from recveil.data.io.formats.closed_pickle import StoredTensor, UnsafePickle, read_structure
from recveil.data.io.formats.format_types import DAMAGE_ERRORS, ArrayFormat
from recveil.data.io.formats.tensors import cast_like, convert_tensor
from recveil.data.io.formats.zip_files import copy_zip, is_zip, list_members, read_member

if TYPE_CHECKING:
    import torch

__all__ = ["FORMAT"]

T = TypeVar("T")

MAX_DEPTH = 8
"""Dicts in dicts that are searched for tensors."""
SINGLE_NAME = "embedding"
"""Name of the tensor of a file that holds nothing else."""

_KINDS = {
    "DoubleStorage": "float64",
    "FloatStorage": "float32",
    "HalfStorage": "float16",
    "BFloat16Storage": "bfloat16",
    "LongStorage": "int64",
    "IntStorage": "int32",
    "ShortStorage": "int16",
    "CharStorage": "int8",
    "ByteStorage": "uint8",
    "BoolStorage": "bool",
}


def _list_arrays(path: Path) -> dict[str, tuple[int, ...]]:
    if is_zip(path):
        return {name: tensor.shape for name, tensor in _read_stored(path).items()}
    return {
        name: tuple(tensor.shape) for name, tensor in _name_tensors(_load_old_form(path), _get_tensor_type()).items()
    }


def _load_array(path: Path, name: str) -> NDArray[Any]:
    if is_zip(path):
        stored = _read_stored(path)[name]
        return convert_tensor(_view_tensor(stored, bytearray(_read_storage(path, stored)), path), name, path)
    return convert_tensor(_name_tensors(_load_old_form(path), _get_tensor_type())[name].detach(), name, path)


def _write_arrays(
    path: Path, arrays: Mapping[str, NDArray[Any]], *, original: Path | None, dropped: Collection[str]
) -> None:
    """Write the arrays; dropped tensors of an original are filled with zeros, since their names cannot be left out."""
    import torch

    if original is None:
        torch.save({name: cast_like(x, None) for name, x in arrays.items()}, path)
        return
    if is_zip(original):
        _copy_with_changes(original, path, arrays, dropped)
        return
    content = _load_old_form(original)
    tensors = _name_tensors(content, _get_tensor_type())
    with torch.no_grad():
        for name, x in arrays.items():
            tensors[name].copy_(_cast_in_place(x, tensors[name]))
        for name in dropped:
            tensors[name].zero_()
    torch.save(content, path, _use_new_zipfile_serialization=False)


def _copy_with_changes(
    original: Path, path: Path, arrays: Mapping[str, NDArray[Any]], dropped: Collection[str]
) -> None:
    stored, prefix = _read_stored(original), _find_prefix(original)
    storages: dict[str, bytearray] = {}
    for name in (*arrays, *dropped):
        key = stored[name].storage
        storages.setdefault(key, bytearray(_read_storage(original, stored[name])))
        view = _view_tensor(stored[name], storages[key], original)
        view.copy_(_cast_in_place(arrays[name], view)) if name in arrays else view.zero_()
    copy_zip(original, path, {f"{prefix}data/{key}": bytes(content) for key, content in storages.items()})


def _cast_in_place(x: NDArray[Any], original: torch.Tensor) -> torch.Tensor:
    """Return the vectors in the type of the original, which keeps its place in the file."""
    if not original.is_floating_point():
        raise UsageError("The file holds whole numbers, and defended vectors are fractions. Write .parquet instead.")
    return cast_like(x, original)


def _read_stored(path: Path) -> dict[str, StoredTensor]:
    """Read the tensors that a zip file describes, by name."""
    try:
        structure = read_structure(read_member(path, f"{_find_prefix(path)}data.pkl"))
        return _name_tensors(structure, StoredTensor)
    except DataError:
        raise
    except UnsafePickle as error:
        raise DataError(
            f"{path} names {error}, which runs code, so it was not read. Save the tensors alone, as safetensors."
        ) from None
    except DAMAGE_ERRORS as error:
        raise _refuse_damage(path) from error


def _read_storage(path: Path, stored: StoredTensor) -> bytes:
    try:
        return read_member(path, f"{_find_prefix(path)}data/{stored.storage}")
    except DataError:
        raise
    except DAMAGE_ERRORS as error:
        raise _refuse_damage(path) from error


def _view_tensor(stored: StoredTensor, content: bytearray, path: Path) -> torch.Tensor:
    """View the numbers of a tensor in its block."""
    import torch

    kind = _KINDS.get(stored.kind)
    if kind is None or not math.prod(stored.shape):
        raise DataError(f"{path} holds no table of known numbers ({stored.kind}). Write the vectors as 32-bit floats.")
    try:
        block = torch.frombuffer(content, dtype=getattr(torch, kind))
        return block.as_strided(stored.shape, stored.stride, stored.offset)
    except DAMAGE_ERRORS as error:
        raise _refuse_damage(path) from error


def _name_tensors(content: Any, kind: type[T], prefix: str = "", depth: int = 0) -> dict[str, T]:
    """Name the tensors in dicts of dicts by their path, joined by points; a tensor alone is called embedding."""
    if isinstance(content, kind):
        return {prefix or SINGLE_NAME: content}
    if not isinstance(content, dict) or depth > MAX_DEPTH:
        return {}
    tensors: dict[str, T] = {}
    for key, value in content.items():
        tensors |= _name_tensors(value, kind, f"{prefix}.{key}" if prefix else str(key), depth + 1)
    return tensors


def _find_prefix(path: Path) -> str:
    """Find the folder of a zip file under which everything lies."""
    place = next((name for name in list_members(path) if name.endswith("/data.pkl") and name.count("/") == 1), None)
    if place is None:
        raise DataError(f"{path} is a zip file that torch.save did not write. Save the tensors with torch.save.")
    return place.removesuffix("data.pkl")


def _load_old_form(path: Path) -> Any:
    import torch

    try:
        return torch.load(path, map_location="cpu", weights_only=True)  # nosec B614 - tensors and containers alone
    except (pickle.UnpicklingError, *DAMAGE_ERRORS) as error:
        raise _refuse_damage(path) from error


def _get_tensor_type() -> type[torch.Tensor]:
    import torch

    return torch.Tensor


def _refuse_damage(path: Path) -> DataError:
    return DataError(
        f"{path} is not a whole file of torch.save, or holds more than tensors. Save the tensors alone, as safetensors."
    )


FORMAT = ArrayFormat(
    "PyTorch, RecBole checkpoint", (".pt", ".pth"), _list_arrays, _load_array, _write_arrays, holds_text=False
)
