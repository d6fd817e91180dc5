"""Types of the options of methods, and the one check of option values against them.

A method declares its options with these types, or with `Annotated` types of its own:

    embedding_size: Width = 64
    dropout: Rate = 0.1

A registry checks the values before it makes a method. A dataclass whose options are also given in Python calls
`check_fields(self)` in `__post_init__`.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import lru_cache
from types import SimpleNamespace
from typing import Annotated, Any, get_origin, get_type_hints

import numpy as np
from pydantic import (
    ConfigDict,
    Field,
    PydanticUndefinedAnnotation,
    PydanticUserError,
    TypeAdapter,
    ValidationError,
)

from recveil.core.errors import UsageError

__all__ = [
    "MAX_COUNT",
    "MAX_SEED",
    "Count",
    "CountOrZero",
    "Exponent",
    "Folds",
    "LeakRatio",
    "NonNegativeFloat",
    "OpenShare",
    "PositiveFloat",
    "Rate",
    "Repeats",
    "SeedNumber",
    "Share",
    "Width",
    "check_fields",
    "describe_value",
    "parse_option_values",
    "read_field_types",
]

MAX_COUNT = 2**31 - 1
MAX_SEED = 2**32 - 1
"""Largest seed: what scikit-learn takes."""
MAX_WIDTH = 2**12
"""Numbers of a vector, or of a hidden layer: a table of this width squared still fits into memory."""

Count = Annotated[int, Field(ge=1, le=MAX_COUNT)]
CountOrZero = Annotated[int, Field(ge=0, le=MAX_COUNT)]
Width = Annotated[int, Field(ge=1, le=MAX_WIDTH)]
SeedNumber = Annotated[int, Field(ge=0, le=MAX_SEED)]
PositiveFloat = Annotated[float, Field(gt=0)]
NonNegativeFloat = Annotated[float, Field(ge=0)]
Share = Annotated[float, Field(ge=0, le=1)]
OpenShare = Annotated[float, Field(gt=0, lt=1)]
Rate = Annotated[float, Field(ge=0, lt=1)]
"""A share below 1, as of neurons that are dropped."""
Exponent = Annotated[float, Field(ge=-50, le=50)]
"""A power of e that single precision can hold."""

Folds = Annotated[int, Field(ge=2, le=1_000)]
Repeats = Annotated[int, Field(ge=1, le=1_000)]
LeakRatio = Annotated[float, Field(ge=0.001, lt=1)]
"""Share of users that an attacker knows; with fewer than one in a thousand no audit decides anything."""

STRICT = ConfigDict(strict=True, allow_inf_nan=False)
MAX_SHOWN_CHARACTERS = 40


def parse_option_values(owner: str, builder: Callable[..., Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options as the builder declares them.

    Numbers are not cut, rounded or read from text; a list stands for a tuple. Options whose type is no plain one are
    left to the builder.

    Args:
        owner: the method as errors call it, such as "model 'als'"; empty for arguments of a function.
        builder: the class or function that takes the options; its annotations say what is allowed.
        options: values by name.

    Raises:
        UsageError: a value is of another type, or out of bounds.
    """
    types = _build_adapters(builder)
    return {name: _parse_value(owner, name, value, types.get(name)) for name, value in options.items()}


def check_fields(options: Any, owner: str | None = None) -> None:
    """Refuse fields of a dataclass that are of another type than declared, or out of bounds.

    Errors call the owner by its class unless it is given; an empty one makes the fields arguments of a function.
    """
    values = {each.name: getattr(options, each.name) for each in fields(options) if each.init}
    parse_option_values(type(options).__name__ if owner is None else owner, type(options), values)


def describe_value(value: object) -> str:
    """Return a value as errors show it: short, and never an error itself."""
    try:
        text = value if isinstance(value, str) else repr(value)
    except (ValueError, RecursionError):  # an integer of thousands of digits, or very deep nesting
        return "an integer of thousands of digits" if isinstance(value, int) else "a value too large to show"
    shown = text if len(text) <= MAX_SHOWN_CHARACTERS else f"{text[:MAX_SHOWN_CHARACTERS]}..."
    return f"'{shown}'" if isinstance(value, str) else shown


def _parse_value(owner: str, name: str, value: object, allowed: TypeAdapter[Any] | None) -> Any:
    if allowed is None:
        return value
    if isinstance(value, np.generic):
        value = value.item()
    try:
        return allowed.validate_python(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        reason = first["msg"].replace("Input should", "It should", 1).partition(" after validation")[0]
        for jargon in ("a valid tuple", "an instance of Sequence"):
            reason = reason.replace(jargon, "a list")
    except (OverflowError, RecursionError):
        reason = "It should be a number within the range of floating point"
    subject = f"The option '{name}' of {owner}" if owner else f"`{name}`"
    raise UsageError(f"{subject} is {describe_value(value)}. {reason}.")


@lru_cache(maxsize=256)
def _build_adapters(builder: Callable[..., Any]) -> Mapping[str, TypeAdapter[Any]]:
    """Build a validator for each option whose annotation is made of plain types."""
    found: dict[str, TypeAdapter[Any]] = {}
    for name, annotation in _read_annotations(builder).items():
        # A list in a plan or on the command line stands for a tuple; what is inside stays strict.
        is_tuple = get_origin(annotation) is tuple
        try:
            found[name] = TypeAdapter(
                Annotated[annotation, Field(strict=False)] if is_tuple else annotation, config=STRICT
            )
        except (PydanticUserError, PydanticUndefinedAnnotation):
            continue
    return found


def _read_annotations(builder: Callable[..., Any]) -> dict[str, Any]:
    """Read the annotations of the options; those that name types unknown at run time are left out."""
    if isinstance(builder, type) and is_dataclass(builder):
        options = {each.name for each in fields(builder) if each.init}
        return {name: hint for name, hint in read_field_types(builder).items() if name in options}
    found = _resolve_annotations(builder.__init__ if isinstance(builder, type) else builder)  # type: ignore[misc]
    return {name: hint for name, hint in found.items() if name != "return"}


def read_field_types(dataclass_type: type) -> dict[str, Any]:
    """Read the types of the fields of a dataclass; those that name types unknown at run time are left out."""
    found: dict[str, Any] = {}
    for each in reversed(inspect.getmro(dataclass_type)):
        if is_dataclass(each):
            found.update(_resolve_annotations(each))
    return found


def _resolve_annotations(source: Any) -> dict[str, Any]:
    module = sys.modules.get(getattr(source, "__module__", ""))  # a class without an initializer of its own has none
    found: dict[str, Any] = {}
    for name, annotation in inspect.get_annotations(source).items():
        holder: Any = SimpleNamespace(__annotations__={name: annotation})
        try:
            found[name] = get_type_hints(holder, vars(module) if module else {}, include_extras=True)[name]
        except (NameError, TypeError, SyntaxError, AttributeError):
            continue
    return found
