"""Published mistakes that can be committed on purpose, to show what they do to a number.

A result that was made this way says nothing about privacy. It carries the name of the mistake and a warning, and no
gate accepts it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

from recveil.core.errors import UsageError, unknown_name
from recveil.core.protocols import MembershipAttack
from recveil.core.types import BoolArray, Shadow, Watched

__all__ = ["COMPARISON", "LABEL_LEAK", "MISTAKES", "check_mistake", "commit_comparison", "leak_labels", "write_warning"]

LABEL_LEAK, COMPARISON = "label-leak", "in-place-comparison"
MISTAKES: Mapping[str, str] = {
    LABEL_LEAK: "the true members of the target entered the training of the attacks, as labels",
    COMPARISON: "the pseudo-labels of the target were compared with its true members in place, as in the released code "
    "of DL-MIA, and so let them into training (EVALUATION 4)",
}
"""Mistakes by name, and what each of them is."""


@runtime_checkable
class PseudoLabelAttack(Protocol):
    """An attack that gives the target labels of its own, which the mistake overwrites."""

    def commit_comparison(self, truth: BoolArray) -> MembershipAttack:
        """Return a copy of the attack that makes the mistake."""


def check_mistake(name: str) -> None:
    """Refuse a mistake that is not offered; an empty name is none."""
    if name and name not in MISTAKES:
        raise unknown_name("mistake to demonstrate", name, MISTAKES)


def write_warning(name: str) -> str:
    """Write the sentence that stands before all others in a result that demonstrates a mistake."""
    return f"DEMONSTRATION, not an audit: {MISTAKES[name]}. These numbers say nothing about privacy."


def leak_labels(shadows: Sequence[Shadow], target: Watched, truth: BoolArray | None) -> list[Shadow]:
    """Return the shadow worlds with the target as one more, its true members known.

    Args:
        shadows: the attacker's own worlds.
        target: what is seen of the target.
        truth: its true members.

    Raises:
        UsageError: the members of the target are not known.
    """
    if truth is None:
        raise UsageError("The label leak needs the true members of the target. Attack a model that is trained here.")
    return [*shadows, Shadow(target, truth)]


def commit_comparison(attack: MembershipAttack, truth: BoolArray | None) -> MembershipAttack:
    """Return the attack as it makes the mistake of the released code; attacks without pseudo-labels stay as they are.

    Args:
        attack: the attack.
        truth: true members of the users that the attack looks at.

    Raises:
        UsageError: the members of the target are not known.
    """
    if truth is None:
        raise UsageError("The comparison needs the true members of the target. Attack a model that is trained here.")
    return attack.commit_comparison(truth) if isinstance(attack, PseudoLabelAttack) else attack
