"""Published mistakes that can be committed on purpose, to show what they do to a number.

A result that was made this way says nothing about privacy. It carries the name of the mistake and a warning, and no
gate accepts it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from recveil.core.errors import UsageError, unknown_name
from recveil.core.types import BoolArray, Shadow, Watched

__all__ = ["LABEL_LEAK", "MISTAKES", "check_mistake", "leak_labels", "write_warning"]

LABEL_LEAK = "label-leak"
MISTAKES: Mapping[str, str] = {
    LABEL_LEAK: "the true members of the target entered the training of the attacks, as an in-place comparison lets "
    "them in the released code of DL-MIA (EVALUATION 4)",
}
"""Mistakes by name, and what each of them is."""


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
