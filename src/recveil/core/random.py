"""One seed for a run, and an independent stream for each role in it.

`make_generator(7, "split")` and `make_generator(7, "train")` never share a draw, and adding a role
does not change the others. Nothing here, or anywhere in recveil, touches a global generator.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch

__all__ = ["make_generator", "make_torch_generator"]


def make_generator(seed: int, *role: str | int) -> np.random.Generator:
    """Make an independent generator for this seed and role."""
    digest = hashlib.sha256("/".join(map(str, role)).encode()).digest()
    words = np.frombuffer(digest[:16], dtype="<u4").tolist()
    return np.random.default_rng(np.random.SeedSequence([seed, *words]))


def make_torch_generator(rng: np.random.Generator, device: str | torch.device = "cpu") -> torch.Generator:
    """Make a torch generator on the device, seeded by one draw from `rng`."""
    import torch

    return torch.Generator(device=device).manual_seed(int(rng.integers(2**63 - 1)))
