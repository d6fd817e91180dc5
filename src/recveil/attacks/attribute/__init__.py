"""Attribute attacks: one file for each family, panels, and surfaces of a release."""

from recveil.core.registry import Registry
from recveil.core.traits import AttackTraits

__all__ = ["ATTRIBUTE_ATTACKS"]

ATTRIBUTE_ATTACKS = Registry("attack", "recveil.attacks.attribute", "recveil.attacks", AttackTraits)
"""Attribute attacks by name."""
