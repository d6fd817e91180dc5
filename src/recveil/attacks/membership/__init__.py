"""Membership attacks, one file for each, and the rules that run beside them."""

from recveil.core.registry import Registry
from recveil.core.traits import MembershipAttackTraits

__all__ = ["MEMBERSHIP_ATTACKS"]

MEMBERSHIP_ATTACKS = Registry(
    "membership attack", "recveil.attacks.membership", "recveil.attacks", MembershipAttackTraits
)
"""Membership attacks by name."""
