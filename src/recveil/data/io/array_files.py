"""Arrays in `.npy` and safetensors files from untrusted sources, and ids made from arrays.

Nothing is unpickled. A file whose header is damaged, or claims more numbers than the file has, is refused before memory
is set aside for it.
"""

from __future__ import annotations

import tokenize
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray

from recveil.core.errors import DataError
from recveil.data.io.tables import ITEM_NAMES, USER_NAMES, simplify_name
from recveil.data.io.text import check_file

__all__ = ["check_scale", "convert_id_array", "convert_tensor", "find_id_tensor", "load_npy", "load_tensors"]

MIN_MAGNITUDE, MAX_MAGNITUDE = 1e-15, 1e15
"""Range of the largest number of a table, which keeps squares and sums of squares in the range of 32-bit floats."""

_ID_KINDS = "iufUS"
_DAMAGE_ERRORS = (
    ValueError,
    TypeError,
    KeyError,
    EOFError,
    OSError,
    OverflowError,
    MemoryError,
    RecursionError,
    RuntimeError,
    SyntaxError,
    AttributeError,
    tokenize.TokenError,
)


def check_scale(x: NDArray[np.float32], source: str | Path) -> None:
    """Refuse vectors whose squares leave the range of 32-bit floats.

    Raises:
        DataError: the largest number is above `MAX_MAGNITUDE`, or not zero and below `MIN_MAGNITUDE`.
    """
    largest = float(max(x.max(), -x.min()))
    if largest > MAX_MAGNITUDE or 0 < largest < MIN_MAGNITUDE:
        raise DataError(
            f"The largest number in {source} is {largest:.0e}, and {MIN_MAGNITUDE:.0e} to {MAX_MAGNITUDE:.0e} can be "
            "computed with. Multiply all vectors by one number."
        )


def load_npy(path: Path) -> NDArray[Any]:
    """Load the array of a `.npy` file.

    Raises:
        DataError: the file is missing, damaged, an archive, or holds Python objects.
    """
    path = check_file(path)
    with path.open("rb") as file:
        if file.read(2) == b"PK":
            raise DataError(f"{path} is an archive of arrays. Save the one array with numpy.save.")
    try:
        # A mapped file is checked against the size in its header, which is only a claim.
        return np.array(np.load(path, mmap_mode="r", allow_pickle=False))
    except _DAMAGE_ERRORS as error:
        raise DataError(f"{path} is not a whole .npy file of plain numbers or text. Write it again.") from error


def load_tensors(path: Path) -> dict[str, torch.Tensor]:
    """Load all tensors of a safetensors file.

    Raises:
        DataError: the file is damaged, or holds a type of numbers that this machine's torch does not know.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(path)
    except (SafetensorError, *_DAMAGE_ERRORS) as error:
        raise DataError(f"{path} is not a whole safetensors file of known types. Write it again.") from error


def convert_tensor(tensor: torch.Tensor, name: str, path: Path) -> NDArray[Any]:
    """Convert a tensor of numbers to an array; numbers of fewer than 32 bits become 32-bit floats.

    Args:
        tensor: the tensor.
        name: its name, for errors.
        path: its file, for errors.

    Raises:
        DataError: it holds booleans, complex numbers, or a type that cannot be converted.
    """
    if tensor.dtype == torch.bool or tensor.is_complex():
        kind = str(tensor.dtype).removeprefix("torch.")
        raise DataError(f"The tensor '{name}' of {path} holds {kind}, not numbers. Write the vectors as 32-bit floats.")
    try:
        array: NDArray[Any] = (tensor.float() if tensor.itemsize < 4 else tensor).numpy()
    except (TypeError, RuntimeError) as error:
        raise DataError(
            f"The numbers of the tensor '{name}' of {path} ({tensor.dtype}) cannot be read. Write 32-bit floats."
        ) from error
    return array


def find_id_tensor(tensors: Mapping[str, torch.Tensor], n_rows: int, owner: str, path: Path) -> str | None:
    """Find the tensor that holds the ids of the rows: one with a name for ids, and one number for each row.

    Args:
        tensors: the tensors of a file.
        n_rows: rows of its table of vectors.
        owner: whose vectors they are, "user" or "item".
        path: the file, for errors.

    Raises:
        DataError: the tensor `user_id` (or `item_id`) does not hold one whole number for each row.
    """
    names = (*(USER_NAMES if owner == "user" else ITEM_NAMES), f"{owner}_ids", "ids", "id")
    known = {simplify_name(name): place for place, name in reversed(list(enumerate(names)))}
    candidates = [name for name, tensor in tensors.items() if tensor.ndim == 1 and len(tensor) == n_rows]
    candidates = [name for name in candidates if simplify_name(name) in known]
    exact = f"{owner}_id"
    if exact in tensors and exact not in candidates:
        shape = " x ".join(map(str, tensors[exact].shape)) or "a single number"
        raise DataError(
            f"The tensor '{exact}' of {path} does not fit its {n_rows} vectors (its shape is {shape}). Give one id for "
            "each row."
        )
    return min(candidates, key=lambda name: (known[simplify_name(name)], name), default=None)


def convert_id_array(array: NDArray[Any] | torch.Tensor, source: str | Path) -> pa.Array:
    """Convert an array of ids to Arrow; dimensions of length one do not matter.

    Raises:
        DataError: the array holds something other than numbers or text.
    """
    if isinstance(array, torch.Tensor):
        known = not (array.dtype == torch.bool or array.is_complex()) and array.dtype != torch.bfloat16
        known = known and not (array.is_floating_point() and array.itemsize == 1)
        kind: object = str(array.dtype).removeprefix("torch.")
        plain = array.numpy() if known else None
    else:
        kind = array.dtype
        plain = array if array.dtype.kind in _ID_KINDS else None
    if plain is not None:
        try:
            return pa.array(plain.astype(plain.dtype.newbyteorder("=")).ravel())
        except (pa.ArrowException, UnicodeError, ValueError, TypeError):
            pass
    raise DataError(f"The ids in {source} are {kind}. Write every id as a whole number or as text.")
