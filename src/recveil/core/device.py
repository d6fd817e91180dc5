"""Where tensors live, the device asked for or the best one there is; and how it gives the same numbers twice."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from recveil.core.errors import UsageError

__all__ = ["repeatable", "resolve"]


def resolve(device: str | torch.device | None = None) -> torch.device:
    """The torch device of this name; with none named, CUDA where there is one, else the CPU."""
    if device is None or str(device) == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        chosen = torch.device(device)
    except RuntimeError as error:
        raise UsageError(f"No device is called '{device}'. Use 'cpu', 'cuda' or 'cuda:N'.") from error
    if chosen.type == "cuda" and not torch.cuda.is_available():
        raise UsageError(f"The device '{device}' was asked for, but torch sees no CUDA here. Use --device cpu.")
    return chosen


@contextmanager
def repeatable() -> Iterator[None]:
    """What is computed in here comes out the same to the bit when it is computed again, on a GPU too.

    There, sums are by default added up in the order in which threads happen to come; on a CPU nothing needs to be done.
    Where torch has no repeatable way, the usual one is taken.
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
