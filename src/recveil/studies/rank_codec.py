"""The rank of every test item as a short text, so that seeds can be pooled user by user later."""

from __future__ import annotations

import numpy as np

from recveil.metrics.ranking import Ranks

__all__ = ["MAX_RANK", "pack_ranks", "unpack_ranks"]

MAX_RANK = 255
"""Largest rank that is stored: one byte each."""


def pack_ranks(ranks: Ranks) -> str:
    """Pack the number of items before each test item; ties count against the model."""
    text: str = np.minimum(ranks.better + ranks.ties, MAX_RANK).astype(np.uint8).tobytes().hex()
    return text


def unpack_ranks(text: str) -> Ranks:
    """Unpack ranks; those that were cut off lie beyond every list that a plan may ask for."""
    better = np.frombuffer(bytes.fromhex(text), dtype=np.uint8).astype(np.int64)
    users = np.arange(len(better))
    return Ranks(users, users, better, np.zeros_like(better))
