"""Defenses: one file for each, in a folder for the place where it acts (data, training, embeddings, lists)."""

from recveil.core.registry import Registry
from recveil.core.traits import DefenseTraits

__all__ = ["DEFENSES"]

DEFENSES = Registry("defense", "recveil.defenses", "recveil.defenses", DefenseTraits)
"""Defenses of all places by name."""
