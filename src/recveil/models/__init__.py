"""Recommenders: one file for each, on one training loop."""

from recveil.core.registry import Registry
from recveil.core.traits import ModelTraits

__all__ = ["MODELS"]

MODELS = Registry("model", "recveil.models", "recveil.models", ModelTraits)
"""Recommenders by name."""
