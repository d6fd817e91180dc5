"""The device that tensors live on, and computations on it that repeat to the bit."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from threadpoolctl import threadpool_limits

from recveil.core.errors import UsageError

__all__ = ["check_device", "deterministic_algorithms", "resolve_device", "use_one_thread"]

DEVICE_TYPES = ("cpu", "cuda")
"""Types of devices that every method was tried on."""


def resolve_device(device: str | torch.device | None = None) -> torch.device:
    """Return the torch device of this name; without a name CUDA where there is one, else the CPU."""
    if device is None or str(device) == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        chosen: torch.device | None = torch.device(device)
    except (RuntimeError, TypeError, ValueError, OverflowError):
        chosen = None
    if chosen is None or chosen.type not in DEVICE_TYPES:
        raise UsageError(f"No device is called '{str(device)[:40]}'. Use 'cpu', 'cuda' or 'cuda:N'.")
    if chosen.type == "cuda" and not torch.cuda.is_available():
        raise UsageError(f"The device '{device}' was asked for, but torch sees no CUDA here. Use 'cpu'.")
    if chosen.type == "cuda" and chosen.index is not None and chosen.index >= torch.cuda.device_count():
        raise UsageError(f"The device '{device}' was asked for, but torch sees {torch.cuda.device_count()} here.")
    return chosen


def check_device(device: str | None) -> None:
    """Refuse a device that does not exist; call it before the work. No name is none to refuse."""
    if device is not None:
        resolve_device(device)


@contextmanager
def deterministic_algorithms() -> Iterator[None]:
    """Make computations in this block repeat to the bit, on a GPU too.

    A GPU adds sums in the order in which threads arrive; for a CPU see `use_one_thread`. Where torch has no
    deterministic algorithm, the usual one is taken.
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


@contextmanager
def use_one_thread() -> Iterator[None]:
    """Compute on one thread of the CPU in this block, or in a function that it decorates.

    Libraries split sums and products among the threads they have, so their last bits depend on how many there are. The
    same seed must give the same bytes on every machine.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1):
            yield
    finally:
        torch.set_num_threads(threads)
