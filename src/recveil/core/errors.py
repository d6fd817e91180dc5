"""Errors that recveil raises on purpose.

Every message has three parts: what was given, what is allowed, what to do. The command line turns each kind into its
exit code and prints the message alone.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = ["DataError", "MissingExtra", "RecveilError", "RecveilWarning", "TrainingError", "UsageError", "unknown_name"]


class RecveilError(Exception):
    """Base class of all errors that recveil raises on purpose."""

    exit_code = 70


class UsageError(RecveilError, ValueError):
    """An argument is wrong: an option, a name, a path to write to."""

    exit_code = 2


class DataError(RecveilError, ValueError):
    """A file or table cannot be used as it is."""

    exit_code = 3


class TrainingError(RecveilError):
    """Training broke off, for instance because the loss is no longer finite."""

    exit_code = 3


class MissingExtra(UsageError):
    """An optional package is needed and not installed."""


class RecveilWarning(RuntimeWarning, UserWarning):
    """A warning that recveil gives on purpose; the command line shows no others."""


def unknown_name(kind: str, given: str, known: Iterable[str]) -> UsageError:
    """Return the error for an unknown name, with the nearest match and all known names."""
    names = sorted(known)
    near = difflib.get_close_matches(given, names, n=1)
    guess = f" Did you mean '{near[0]}'?" if near else ""
    return UsageError(f"No {kind} is called '{given}'.{guess} Known: {', '.join(names)}.")
