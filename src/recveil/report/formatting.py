"""Print numbers and texts: missing values, control characters, groups too small to be described, paths.

A report is passed on, so nothing here lets a single user or a folder of the machine through.
"""

from __future__ import annotations

import math
import re
import shlex
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from recveil.core.path_names import hide_folders, shorten_paths
from recveil.core.types import MIN_USERS_SHOWN, Estimate

__all__ = [
    "MIN_USERS_SHOWN",
    "MISSING",
    "ShownEstimate",
    "finite_or_none",
    "format_class_size",
    "format_command",
    "format_count",
    "format_estimate",
    "format_number",
    "format_p_value",
    "format_text",
    "hide_folders",
    "is_too_small",
    "join_names",
    "redact_sentence",
    "replace_controls",
    "select_hidden_classes",
]

MISSING = "–"

_BIDIRECTIONAL = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"


_CONTROL = re.compile(f"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff{_BIDIRECTIONAL}]")


@dataclass(frozen=True)
class ShownEstimate:
    """An estimate ready to print; `interval` is empty where there is none."""

    value: str = MISSING
    interval: str = ""
    n: str = MISSING

    def __str__(self) -> str:
        return f"{self.value} {self.interval}".strip()


def format_text(value: object) -> str:
    """Return one line that can be written as UTF-8; what cannot be shown becomes a replacement sign."""
    return "".join(_replace_control(character) for character in str(value))


def _replace_control(character: str) -> str:
    if character in "\t\r\n":
        return " "
    hidden = unicodedata.category(character) in ("Cc", "Cs") or character in _BIDIRECTIONAL
    return "\ufffd" if hidden else character


def replace_controls(page: str) -> str:
    """Return a page of several lines in which control and bidirectional characters are replacement signs."""
    return _CONTROL.sub("\ufffd", page)


def finite_or_none(value: float | None) -> float | None:
    """Return the number, or None where it is missing or not finite."""
    return None if value is None or not math.isfinite(value) else float(value)


def format_number(value: float | None, digits: int = 3, *, signed: bool = False) -> str:
    """Return the number with this many digits and a true minus sign; never "-0.000"."""
    number = finite_or_none(value)
    if number is None:
        return MISSING
    rounded = round(number, digits) + 0.0
    return f"{rounded:{'+' if signed and rounded else ''},.{digits}f}".replace("-", "−")


def format_count(value: float | None) -> str:
    """Return a whole number with its thousands apart."""
    return format_number(value, 0)


def format_p_value(value: float | None) -> str:
    """Return a p-value; one too small for three digits is never printed as zero."""
    number = finite_or_none(value)
    return "< 0.001" if number is not None and number < 0.001 else format_number(number)


def format_estimate(estimate: Estimate | None, digits: int = 3, *, signed: bool = False) -> ShownEstimate:
    """Return value, interval and number of users, each ready to print."""
    if estimate is None:
        return ShownEstimate()
    low, high = (format_number(end, digits, signed=signed) for end in (estimate.low, estimate.high))
    interval = "" if MISSING in (low, high) else f"[{low}, {high}]"
    return ShownEstimate(format_number(estimate.value, digits, signed=signed), interval, format_count(estimate.n))


def is_too_small(users: float | None) -> bool:
    """Tell whether a group has so few users that its numbers would describe people."""
    return users is not None and users < MIN_USERS_SHOWN


def select_hidden_classes(sizes: Mapping[str, float | None]) -> frozenset[str]:
    """Select the classes whose numbers are not shown: those of too few users, and the next smallest.

    The numbers of a single hidden class would follow from those of the others and of all users together. So at least
    two classes are hidden, which have ten users or more together, or all classes.
    """
    hidden: list[str] = []
    users = 0.0
    for label, size in sorted(sizes.items(), key=lambda item: math.inf if item[1] is None else item[1]):
        if not is_too_small(size) and (not hidden or (len(hidden) > 1 and users >= MIN_USERS_SHOWN)):
            break
        hidden.append(label)
        users += size or 0.0
    return frozenset(hidden)


def format_class_size(users: float | None) -> str:
    """Return the number of users of a class, unless they are too few to say."""
    return f"fewer than {MIN_USERS_SHOWN}" if is_too_small(users) else format_count(users)


def redact_sentence(sentence: object) -> str:
    """Return the sentence without counts of fewer than ten users and without folders of the machine."""
    shown = shorten_paths(format_text(sentence))
    return re.sub(r"(?<![\d.,])\d(?= users?\b)", f"fewer than {MIN_USERS_SHOWN}", shown)


def format_command(command_line: Sequence[str]) -> str:
    """Return the command as one line to copy, without the folders of absolute paths."""
    return format_text(shlex.join(hide_folders(argument) for argument in command_line))


def join_names(names: Sequence[str]) -> str:
    """Return "a", "a and b" or "a, b and c"."""
    *first, last = map(format_text, names)
    return f"{', '.join(first)} and {last}" if first else last
