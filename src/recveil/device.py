"""Where tensors live: the device asked for, or the best one there is."""

from __future__ import annotations

import torch

from recveil.errors import UsageError

__all__ = ["resolve"]


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
