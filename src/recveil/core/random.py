"""One seed for a run, one independent stream for each role in it.

`generator(7, "split")` and `generator(7, "train")` never share a draw, and adding a role
does not change the others. Nothing here, or anywhere in recveil, touches a global generator.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch

__all__ = ["generator", "torch_generator"]


def generator(seed: int, *role: str | int) -> np.random.Generator:
    """An independent generator for this seed and role."""
    digest = hashlib.sha256("/".join(map(str, role)).encode()).digest()
    words = np.frombuffer(digest[:16], dtype="<u4").tolist()
    return np.random.default_rng(np.random.SeedSequence([seed, *words]))


def torch_generator(rng: np.random.Generator, device: str | torch.device = "cpu") -> torch.Generator:
    """A torch generator on the device, seeded by one draw from `rng`."""
    import torch

    return torch.Generator(device=device).manual_seed(int(rng.integers(2**63 - 1)))
