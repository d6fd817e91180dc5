"""The device that tensors live on, and deterministic algorithms on it."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from recveil.core.errors import UsageError

__all__ = ["deterministic_algorithms", "resolve_device"]


def resolve_device(device: str | torch.device | None = None) -> torch.device:
    """Return the torch device of this name; without a name CUDA where there is one, else the CPU."""
    if device is None or str(device) == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        chosen = torch.device(device)
    except RuntimeError as error:
        raise UsageError(f"No device is called '{device}'. Use 'cpu', 'cuda' or 'cuda:N'.") from error
    if chosen.type == "cuda" and not torch.cuda.is_available():
        raise UsageError(f"The device '{device}' was asked for, but torch sees no CUDA here. Use 'cpu'.")
    return chosen


@contextmanager
def deterministic_algorithms() -> Iterator[None]:
    """Make computations in this block repeat to the bit, on a GPU too.

    A GPU adds sums in the order in which threads arrive; a CPU needs nothing. Where torch has no deterministic
    algorithm, the usual one is taken.
    """
    if not torch.cuda.is_available():
        yield
        return
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # without it cuBLAS is not repeatable
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    memory: Any = torch.utils.deterministic
    filled = memory.fill_uninitialized_memory
    torch.use_deterministic_algorithms(True, warn_only=True)
    memory.fill_uninitialized_memory = False  # takes time, and nothing here reads before it writes
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*deterministic implementation")
            yield
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])
        memory.fill_uninitialized_memory = filled
