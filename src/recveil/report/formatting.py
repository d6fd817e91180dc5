"""How the report prints numbers and strings, whatever was in the document: null, NaN, control characters."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Mapping
from typing import Any

__all__ = [
    "MISSING",
    "as_dict",
    "class_count",
    "count",
    "discreet",
    "estimate",
    "finite",
    "number",
    "p_value",
    "text",
    "too_small",
]

MISSING = "–"
SMALL_CELL = 10  # a class with fewer users is not described: its numbers would be those of nameable people


def as_dict(value: Any) -> dict[str, Any]:
    """The mapping, or an empty one where the document has null or nothing."""
    return dict(value) if isinstance(value, Mapping) else {}


def text(value: Any) -> str:
    """A string that can be written as UTF-8 and shown on one line; what cannot be shown becomes a replacement sign."""
    return "".join(_shown(character) for character in str(value))


def _shown(character: str) -> str:
    if character in "\t\r\n":
        return " "
    return "\ufffd" if unicodedata.category(character) in ("Cc", "Cs") else character


def finite(value: Any) -> float | None:
    """The number, or None for anything that is not one."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def number(value: Any, digits: int = 3, *, signed: bool = False) -> str:
    """The number to this many digits, with a true minus sign."""
    given = finite(value)
    if given is None:
        return MISSING
    rounded = round(given, digits) + 0.0  # never "-0.000"
    return f"{rounded:{'+' if signed and rounded else ''},.{digits}f}".replace("-", "−")


def count(value: Any) -> str:
    """A whole number with thousands apart."""
    return number(value, 0)


def p_value(value: Any) -> str:
    """A p-value; below what three digits can show it says so."""
    given = finite(value)
    return "< 0.001" if given is not None and given < 0.001 else number(value)


def estimate(value: Any, digits: int = 3, *, signed: bool = False) -> dict[str, str]:
    """A number, its interval and its n, ready to print; the interval is empty where there is none."""
    part = as_dict(value)
    low, high = (number(part.get(end), digits, signed=signed) for end in ("low", "high"))
    interval = "" if MISSING in (low, high) else f"[{low}, {high}]"
    return {"value": number(part.get("value"), digits, signed=signed), "interval": interval, "n": count(part.get("n"))}


def too_small(users: Any) -> bool:
    """Whether a class has so few users that its numbers would describe people rather than a class."""
    given = finite(users)
    return given is not None and given < SMALL_CELL


def class_count(users: Any) -> str:
    """How many users a class has, unless they are too few to say."""
    return f"fewer than {SMALL_CELL}" if too_small(users) else count(users)


def discreet(sentence: Any) -> str:
    """The sentence for a page that is passed on: where it counts fewer than ten users, it says just that."""
    return re.sub(r"(?<![\d.,])\d(?= users?\b)", f"fewer than {SMALL_CELL}", text(sentence))
