"""Torch tensors of files: converted to arrays when they are read, and back to their type when they are written."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from recveil.core.errors import DataError, UsageError

if TYPE_CHECKING:
    import torch

__all__ = ["cast_like", "convert_tensor"]


def convert_tensor(tensor: torch.Tensor, name: str, path: Path) -> NDArray[Any]:
    """Convert a tensor of numbers to an array; numbers that NumPy does not know become 32-bit floats.

    Args:
        tensor: the tensor.
        name: its name, for errors.
        path: its file, for errors.

    Raises:
        DataError: it holds booleans, complex numbers, or a type that cannot be converted.
    """
    import torch

    kind = str(tensor.dtype).removeprefix("torch.")
    is_number = tensor.dtype != torch.bool and not tensor.is_complex()
    is_unknown = tensor.dtype == torch.bfloat16 or (tensor.is_floating_point() and tensor.itemsize == 1)
    if tensor.ndim == 1 and (is_unknown or not is_number):  # such numbers are too coarse to tell ids apart
        raise DataError(f"The ids in {path} are {kind}. Write every id as a whole number or as text.")
    if not is_number:
        raise DataError(f"The tensor '{name}' of {path} holds {kind}, not numbers. Write vectors as 32-bit floats.")
    try:
        array: NDArray[Any] = (tensor.float() if is_unknown else tensor).numpy()
    except (TypeError, RuntimeError) as error:
        raise DataError(
            f"The numbers of the tensor '{name}' of {path} ({kind}) cannot be read. Write 32-bit floats."
        ) from error
    return array


def cast_like(x: NDArray[Any], original: torch.Tensor | None) -> torch.Tensor:
    """Return the array as a tensor of the original's type; 32-bit floats where that holds no fractions.

    Raises:
        UsageError: a number is too large for the type.
    """
    import torch

    tensor = torch.tensor(x)
    if original is None or not tensor.is_floating_point():
        return tensor
    tensor = tensor.to(original.dtype if original.is_floating_point() else torch.float32)
    if not torch.isfinite(tensor.float()).all():
        raise UsageError(
            f"The defended vectors hold numbers up to {float(np.abs(x).max()):.1e}, which do not fit into "
            f"{original.dtype}. Give the vectors as 32-bit floats."
        )
    return tensor
