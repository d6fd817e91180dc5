"""Files of tensors in the safetensors format."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from recveil.core.errors import DataError
from recveil.data.io.formats.format_types import DAMAGE_ERRORS, ArrayFormat
from recveil.data.io.formats.tensors import cast_like, convert_tensor

if TYPE_CHECKING:
    import torch

__all__ = ["FORMAT"]


def _list_arrays(path: Path) -> dict[str, tuple[int, ...]]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "pt") as file:
            return {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, *DAMAGE_ERRORS) as error:
        raise _refuse_damage(path) from error


def _load_array(path: Path, name: str) -> NDArray[Any]:
    return convert_tensor(_load_tensors(path)[name], name, path)


def _write_arrays(
    path: Path, arrays: Mapping[str, NDArray[Any]], *, original: Path | None, dropped: Collection[str]
) -> None:
    from safetensors.torch import save_file

    tensors = {} if original is None else _load_tensors(original)
    new = {name: cast_like(x, tensors.get(name)) for name, x in arrays.items()}
    kept = {name: tensor for name, tensor in tensors.items() if name not in dropped}
    save_file({**kept, **new}, path, metadata=None if original is None else _read_metadata(original))


def _load_tensors(path: Path) -> dict[str, torch.Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(path)
    except (SafetensorError, *DAMAGE_ERRORS) as error:
        raise _refuse_damage(path) from error


def _read_metadata(path: Path) -> dict[str, str] | None:
    from safetensors import safe_open

    with safe_open(path, "pt") as file:
        metadata: dict[str, str] | None = file.metadata()
    return metadata


def _refuse_damage(path: Path) -> DataError:
    return DataError(f"{path} is not a whole safetensors file of known types. Write it again.")


FORMAT = ArrayFormat("safetensors", (".safetensors",), _list_arrays, _load_array, _write_arrays, holds_text=False)
