"""One seed for a run, and an independent stream for each role in it.

`make_generator(7, "split")` and `make_generator(7, "train")` never share a draw, and adding a role
does not change the others. Nothing here, or anywhere in recveil, touches a global generator.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from recveil.core.errors import DataError

if TYPE_CHECKING:
    import torch

__all__ = ["PairDraws", "make_generator", "make_torch_generator", "read_key"]

MIN_KEY_BYTES = 16
"""Fewest bytes of a secret key."""


def make_generator(seed: int, *role: str | int) -> np.random.Generator:
    """Make an independent generator for this seed and role."""
    digest = hashlib.sha256("/".join(map(str, role)).encode()).digest()
    words = np.frombuffer(digest[:16], dtype="<u4").tolist()
    return np.random.default_rng(np.random.SeedSequence([seed, *words]))


def make_torch_generator(rng: np.random.Generator, device: str | torch.device = "cpu") -> torch.Generator:
    """Make a torch generator on the device, seeded by one draw from `rng`."""
    import torch

    return torch.Generator(device=device).manual_seed(int(rng.integers(2**63 - 1)))


def read_key(path: Path) -> int:
    """Read a secret key: a number that serves in place of a seed and cannot be guessed.

    Raises:
        DataError: the file cannot be read, or holds less than 16 bytes.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError(
            f"The key file {path} cannot be read ({error.strerror}). Name a file of secret bytes."
        ) from None
    if len(content.strip()) < MIN_KEY_BYTES:
        raise DataError(
            f"The key file {path} holds fewer than {MIN_KEY_BYTES} bytes, so the key could be guessed. Make one by "
            "`head -c 32 /dev/urandom > key`."
        )
    return int.from_bytes(hashlib.sha256(content).digest(), "little")


@dataclass(frozen=True, eq=False)
class PairDraws:
    """A fixed number between 0 and 1 for each pair of a user and an item, from a seed and their ids.

    The same pair has the same number in every table, whatever the order and whoever else is in it.

    Attributes:
        user_words: hash of each user's id.
        item_words: hash of each item's id.
    """

    user_words: NDArray[np.uint64]
    item_words: NDArray[np.uint64]

    @classmethod
    def from_ids(cls, seed: int, user_ids: Sequence[object], item_ids: Sequence[object]) -> PairDraws:
        """Make the draws of these users and items."""
        return cls(_hash_ids(f"{seed}/user", user_ids), _hash_ids(f"{seed}/item", item_ids))

    def __call__(self, users: NDArray[np.int64], items: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the numbers of pairs, given by positions."""
        mixed = _mix(self.user_words[users] ^ _mix(self.item_words[items]))
        return (mixed >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _hash_ids(prefix: str, ids: Sequence[object]) -> NDArray[np.uint64]:
    digests = b"".join(hashlib.blake2b(f"{prefix}/{each}".encode(), digest_size=8).digest() for each in ids)
    return np.frombuffer(digests, dtype="<u8").astype(np.uint64)


def _mix(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Mix the bits of words (the finalizer of SplitMix64)."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))
