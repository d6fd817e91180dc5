"""What would make a cell fail is found before anything runs."""

from __future__ import annotations

from typing import Any

import pytest

from recveil.core.errors import DataError, RecveilError, UsageError
from recveil.studies.plan_checks import check_plan
from recveil.studies.plans import Plan


def attribute(data: str, **more: Any) -> Plan:
    settings = more.pop("settings", {})
    grid = {"data": [data], "model": ["bprmf"], "target": ["gender"], "panel": ["fast"], **more}
    return Plan.parse({"title": "t", "kind": "attribute", "grid": grid, "settings": settings}, name="p")


def membership(data: str, **more: Any) -> Plan:
    grid = {"data": [data], "target": ["als"], "shadow": ["als"], **more}
    return Plan.parse({"title": "t", "kind": "membership", "grid": grid}, name="p")


def test_what_can_be_run_passes(tiny: str) -> None:
    every = ["none", "gaussian", {"name": "raid", "eta": 0.0}, "blurme"]
    wide = attribute(tiny, defense=every, target=["gender", "gender+handedness"], surface=["vectors", "lists"])
    assert check_plan(wide) == 4 * 2 * 2
    served = membership(tiny, defense=["none", {"name": "popularity", "pool": 10}], serving=["popular", "fold-in"])
    assert check_plan(served) == 2 * 2


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"model": ["bprmf", "lightgnc"]}, "No model is called 'lightgnc'. Did you mean 'lightgcn'"),
        ({"model": [{"name": "bprmf", "epoch": 3}]}, "No option of model 'bprmf' is called 'epoch'"),
        ({"defense": ["none", "slised"]}, "No defense is called 'slised'. Did you mean 'sliced'"),
        ({"defense": [{"name": "raid", "etta": 1}]}, "No option of defense 'raid' is called 'etta'"),
        ({"defense": ["popularity"]}, "defends lists against membership attacks"),
        ({"target": ["gender", "height"]}, "No attribute in .* is called 'height'.*gender, handedness"),
        ({"target": ["gender+age"]}, "No attribute in .* is called 'age'"),
        ({"panel": ["ful"]}, "No panel or attacker is called 'ful'. Did you mean 'full'"),
        ({"surface": ["list"]}, "No surface is called 'list'. Did you mean 'lists'"),
        ({"leak_ratio": [0.9]}, "A leak ratio of 0.9 is not possible with 5 folds"),
    ],
)
def test_what_cannot_be_run_is_said(tiny: str, change: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        check_plan(attribute(tiny, **change))


def test_data_that_is_not_there(tmp_path: object) -> None:
    with pytest.raises(RecveilError, match="No data set is called 'ml-1mm'. Did you mean 'ml-1m'"):
        check_plan(attribute("ml-1mm"))
    with pytest.raises(DataError, match="There is no file or folder .*none.csv"):
        check_plan(attribute(f"{tmp_path}/none.csv"))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"target": ["alz"]}, "No model is called 'alz'. Did you mean 'als'"),
        ({"shadow": [{"name": "als", "epoch": 1}]}, "No option of model 'als' is called 'epoch'"),
        ({"attack": ["dlmai"]}, "No membership attack is called 'dlmai'. Did you mean 'dlmia'"),
        ({"serving": ["fold"]}, "No way to serve non-members is called 'fold'. Did you mean 'fold-in'"),
        ({"defense": ["popular"]}, "No list defense is called 'popular'. Did you mean 'popularity'"),
        ({"defense": [{"name": "popularity", "pol": 3}]}, "No option of list defense 'popularity' is called 'pol'"),
        ({"generator": ["factor"]}, "No generator of item vectors is called 'factor'. Did you mean 'factors'"),
    ],
)
def test_membership_plans_are_checked_too(tiny: str, change: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        check_plan(membership(tiny, **change))
