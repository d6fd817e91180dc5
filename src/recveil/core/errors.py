"""What can go wrong, said so that people can mend it.

Every message has three parts: what was given, what is allowed, what to do.
The command line turns each kind into its exit code and prints the message alone.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = ["DataError", "MissingExtra", "RecveilError", "TrainingError", "UsageError", "unknown_name"]


class RecveilError(Exception):
    """Anything recveil says about what it was given."""

    exit_code = 70


class UsageError(RecveilError):
    """The call itself is wrong: an option, a name, a path to write to."""

    exit_code = 2


class DataError(RecveilError):
    """A file or table that was handed in cannot be used as it is."""

    exit_code = 3


class TrainingError(RecveilError):
    """Training could not go on, for instance because the loss is no longer a number."""

    exit_code = 3


class MissingExtra(UsageError):
    """An optional package is needed for this and is not installed."""


def unknown_name(kind: str, given: str, known: Iterable[str]) -> UsageError:
    """The error for a name that nothing has, with the nearest match and all that are known."""
    names = sorted(known)
    near = difflib.get_close_matches(given, names, n=1)
    guess = f" Did you mean '{near[0]}'?" if near else ""
    return UsageError(f"No {kind} is called '{given}'.{guess} Known: {', '.join(names)}.")
