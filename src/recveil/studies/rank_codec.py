"""The rank of every test item as a short text, so that seeds can be pooled user by user when all of them are there."""

from __future__ import annotations

import numpy as np

from recveil.metrics.ranking import Ranks

__all__ = ["LAST", "packed", "unpacked"]

LAST = 255
"""Ranks are kept up to this one: a byte each."""


def packed(ranks: Ranks) -> str:
    """How many items stand before each test item (or beside it: ties count against the model)."""
    text: str = np.minimum(ranks.better + ranks.ties, LAST).astype(np.uint8).tobytes().hex()
    return text


def unpacked(text: str) -> Ranks:
    """Ranks from text; those cut off lie beyond every list that a plan may ask for."""
    better = np.frombuffer(bytes.fromhex(text), dtype=np.uint8).astype(np.int64)
    users = np.arange(len(better))
    return Ranks(users, users, better, np.zeros_like(better))
