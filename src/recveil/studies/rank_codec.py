"""The rank of every test item as a short text, so that seeds can be pooled user by user later."""

from __future__ import annotations

import numpy as np

from recveil.metrics.ranking import Ranks

__all__ = ["MAX_RANK", "pack_held_out", "pack_ranks", "unpack_ranks"]

MAX_RANK = 255
"""Largest rank that is stored: one byte each."""


def pack_ranks(ranks: Ranks) -> str:
    """Pack the number of items before each test item; ties count against the model."""
    text: str = np.minimum(ranks.better + ranks.ties, MAX_RANK).astype(np.uint8).tobytes().hex()
    return text


def pack_held_out(ranks: Ranks) -> str:
    """Pack the number of test items of each user; empty where every user has one."""
    counts = np.bincount(ranks.owner, minlength=len(ranks.users))
    if (counts == 1).all():
        return ""
    text: str = counts.astype("<u2").tobytes().hex()
    return text


def unpack_ranks(text: str, held_out: str = "") -> Ranks:
    """Unpack ranks; those that were cut off lie beyond every list that a plan may ask for.

    Args:
        text: ranks as `pack_ranks` packed them.
        held_out: number of test items of each user as `pack_held_out` packed them.
    """
    better = np.frombuffer(bytes.fromhex(text), dtype=np.uint8).astype(np.int64)
    counts = np.frombuffer(bytes.fromhex(held_out), dtype="<u2") if held_out else np.ones(len(better), dtype=np.int64)
    users = np.arange(len(counts))
    return Ranks(users, np.repeat(users, counts), better, np.zeros_like(better))
