"""Types of options: one check that no method's options get past."""

from __future__ import annotations

import inspect
import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Annotated, Any

import numpy as np
import pytest
from pydantic import Field

from recveil.attacks.attribute import ATTRIBUTE_ATTACKS
from recveil.attacks.membership import MEMBERSHIP_ATTACKS
from recveil.core.errors import UsageError
from recveil.core.option_types import (
    Count,
    PositiveFloat,
    Rate,
    Share,
    check_fields,
    describe_value,
    parse_option_values,
)
from recveil.core.registry import Registry
from recveil.defenses import DEFENSES
from recveil.models import MODELS

REGISTRIES: tuple[Registry[Any], ...] = (MODELS, DEFENSES, ATTRIBUTE_ATTACKS, MEMBERSHIP_ATTACKS)
NEVER_A_NUMBER = (math.nan, math.inf, -math.inf, 10**400, 10**5_000, "abc", "", True, [], {}, 1j, [[]])
SIGNED = {"recency"}
"""Options that may be negative."""


@dataclass
class _Options:
    size: Count = 1
    rate: PositiveFloat = 1.0
    layers: tuple[Count, ...] = (1,)
    widths: Annotated[Sequence[Count], Field(min_length=1)] = (1,)
    share: Share | None = None
    drops: tuple[Rate, Rate] = (0.1, 0.2)
    fast: bool = True
    word: str = "x"
    method: _NobodyKnows | None = None  # type: ignore[name-defined]  # noqa: F821

    def __post_init__(self) -> None:
        check_fields(self)


@pytest.mark.parametrize(
    ("name", "value"),
    [("size", np.int64(3)), ("rate", 2), ("layers", [4, 2]), ("widths", [4]), ("share", None), ("share", 1)]
    + [("drops", [0, 0.5]), ("fast", False), ("word", "y"), ("method", object())],
)
def test_values_as_declared_are_taken(name: str, value: object) -> None:
    expected = tuple(value) if name in ("layers", "drops") else value  # type: ignore[arg-type]
    assert parse_option_values("it", _Options, {name: value}) == {name: expected}
    _Options(**{name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("size", 1.5, "is 1.5. It should be a valid integer"),
        ("size", True, "is True. It should be a valid integer"),
        ("size", 0, "is 0. It should be greater than or equal to 1"),
        pytest.param("size", 10**5_000, "is an integer of thousands of digits. It should be less", id="digits"),
        ("rate", math.nan, "is nan. It should be a finite number"),
        ("rate", "0.1", "is '0.1'. It should be a valid number"),
        ("layers", 4, "is 4. It should be a list"),
        ("layers", [4, True], "It should be a valid integer"),
        ("widths", [], "at least 1 item"),
        ("widths", {}, "It should be a list"),
        ("share", 1.5, "less than or equal to 1"),
        ("drops", [0.5, 1.0], "It should be less than 1"),
        ("fast", 1, "It should be a valid boolean"),
        ("word", None, "It should be a valid string"),
    ],
)
def test_other_values_are_refused_in_one_sentence(name: str, value: object, reason: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_option_values("model 'it'", _Options, {name: value})
    assert str(caught.value).startswith(f"The option '{name}' of model 'it' is ")
    assert reason in str(caught.value)
    with pytest.raises(UsageError):
        _Options(**{name: value})  # type: ignore[arg-type]


def test_shown_values_are_short() -> None:
    deep: list[Any] = []
    for _ in range(5_000):
        deep = [deep]
    assert describe_value("a") == "'a'"
    assert describe_value([1, 2]) == "[1, 2]"
    assert len(describe_value("a" * 10_000)) < 50
    assert describe_value(deep) == "a value too large to show"


@pytest.mark.parametrize("registry", REGISTRIES, ids=lambda registry: registry.kind)
def test_no_method_takes_a_number_that_makes_no_sense(registry: Registry[Any]) -> None:
    tried = 0
    for name in registry:
        for option, annotation in _list_numeric_options(registry.load(name)).items():
            negative = () if option in SIGNED else (-1, -0.5)
            for value in (*NEVER_A_NUMBER, *negative, *(() if "None" in annotation else (None,))):
                if value == [] and "tuple" in annotation:  # no hidden layer
                    continue
                tried += 1
                with pytest.raises(UsageError, match=option):
                    registry.make(name, **{option: value})
    assert tried > 100


def _list_numeric_options(builder: Any) -> dict[str, str]:
    """Find options by their declaration in the source, or by the number that they are by default."""
    declared = (
        {each.name: (str(each.type), each.default) for each in fields(builder) if each.init}
        if is_dataclass(builder)
        else {p.name: (str(p.annotation), p.default) for p in inspect.signature(builder).parameters.values()}
    )
    words = ("Count", "Width", "Float", "Share", "Rate", "Seed", "Exponent", "int", "float")
    return {
        name: annotation
        for name, (annotation, default) in declared.items()
        if (isinstance(default, int | float) and not isinstance(default, bool))
        or any(word in annotation for word in words)
    }
