"""Results of cells are the same JSON in and out, and content of any other form is refused."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable
from typing import Any

import pytest

from recveil.core.types import Estimate, Record
from recveil.studies.cell_results import (
    AttributeDetails,
    CellResult,
    MembershipDetails,
    StoredAttack,
    StoredTarget,
    round_numbers,
)
from recveil.studies.cells import Cell


@pytest.fixture
def result(make_cell: Callable[..., Cell]) -> CellResult:
    record = Record("d", "m", "none", "", "gender", 0, "displacement", Estimate(0.2, math.nan, math.nan, 9))
    audit = StoredTarget(folds=[1 / 3], p_value=math.nan, n=9, chance=0.5)
    details = AttributeDetails(ranks="00ff", base="0a", test_share=0.25, targets={"gender": audit})
    return CellResult(make_cell(), [record], details)


def test_json_is_rounded_and_comes_back_equal(result: CellResult) -> None:
    content = json.loads(result.to_json())
    assert content["records"][0]["cell"] == result.cell.id
    assert content["records"][0]["estimate"] == {"value": 0.2, "low": None, "high": None, "n": 9}
    assert content["details"]["targets"]["gender"] == {"folds": [0.3333333333], "p_value": None, "chance": 0.5, "n": 9}
    again = CellResult.parse(content)
    assert again.to_json() == result.to_json()
    assert math.isnan(again.attribute_details.targets["gender"].p_value)


def test_static_attacks_keep_their_key_on_disk(make_cell: Callable[..., Cell]) -> None:
    attacks = {"a": StoredAttack(rule=True)}
    details = MembershipDetails(attacks=attacks, static_attacks=attacks)
    content = json.loads(CellResult(make_cell("membership"), [], details).to_json())
    assert list(content["details"]) == ["attacks", "attacks, static"]
    assert CellResult.parse(content).membership_details.static_attacks["a"].rule


DAMAGES: list[tuple[tuple[str | int, ...], Any]] = [
    (("cell",), None),
    (("cell", "kind"), "other"),
    (("cell", "at", "seed"), "0"),
    (("records",), None),
    (("records", 0), "text"),
    (("records", 0, "estimate"), {}),
    (("records", 0, "estimate", "value"), 10**400),
    (("records", 0, "estimate", "value"), [1]),
    (("records", 0, "metric"), 3),
    (("records", 0, "more"), 3),
    (("details",), None),
    (("details",), []),
    (("details", "ranks"), "zz"),
    (("details", "test_share"), 0),
    (("details", "targets"), {"gender": None}),
    (("details", "targets", "gender", "folds"), [None]),
]


@pytest.mark.parametrize(("place", "value"), DAMAGES)
def test_damaged_content_is_refused(result: CellResult, place: tuple[str | int, ...], value: Any) -> None:
    content = copy.deepcopy(json.loads(result.to_json()))
    part = content
    for step in place[:-1]:
        part = part[step]
    part[place[-1]] = value
    with pytest.raises(ValueError):  # noqa: PT011 - the store names the file and the place
        CellResult.parse(content)


def test_numbers_keep_ten_digits_and_what_is_not_finite_is_null() -> None:
    content = {"a": [1 / 3, math.nan, (math.inf, 2)], 5: {"b": 123456789.123456789, "c": True, "d": None}}
    assert round_numbers(content) == {
        "a": [0.3333333333, None, [None, 2]],
        "5": {"b": 123456789.1, "c": True, "d": None},
    }
