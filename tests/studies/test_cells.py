"""What decides the numbers of a cell, and nothing else, decides its id."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from pydantic import ValidationError

from recveil.studies.cells import Cell, Settings


def test_a_cell_comes_back_from_json_with_its_id_and_typed_coordinates(make_cell: Callable[..., Cell]) -> None:
    cell = make_cell(defense=[{"name": "noise", "label": "loud", "scale": 0.5}], seed=[3])
    again = Cell.from_dict(json.loads(json.dumps(cell.to_dict())))
    assert again.id == cell.id
    assert (again.seed, again.target, again.device, again.label("defense")) == (3, "gender", "cpu", "loud")
    assert (again.choice("defense").name, again.choice("defense").options) == ("noise", {"scale": 0.5})
    assert make_cell().choice("defense").is_undefended
    assert again.rules.folds == 5


@pytest.mark.parametrize("content", [None, [], {}, {"kind": 1, "at": {}, "settings": {}, "labels": {}}, {"kind": "x"}])
def test_content_that_is_no_cell_is_refused(content: object) -> None:
    with pytest.raises(ValueError, match="a cell"):
        Cell.from_dict(content)


def test_the_main_cut_off_is_ten_or_the_last_one() -> None:
    assert (Settings().main_k, Settings(k=[5, 7]).main_k) == (10, 7)
    with pytest.raises(ValidationError):
        Settings(unattacked=float("nan"))
