"""What would make a cell fail is found before anything runs."""

from __future__ import annotations

from typing import Any

import pytest

from recveil.core.errors import DataError, RecveilError, UsageError
from recveil.studies.plan_checks import check_plan
from recveil.studies.plans import Plan


def attribute(data: str, **axes: Any) -> Plan:
    grid = {"data": [data], "model": ["bprmf"], "target": ["gender"], "panel": ["fast"], **axes}
    return Plan.parse({"title": "t", "kind": "attribute", "grid": grid}, name="p")


def membership(data: str, **axes: Any) -> Plan:
    grid = {"data": [data], "target": ["als"], "shadow": ["als"], **axes}
    return Plan.parse({"title": "t", "kind": "membership", "grid": grid}, name="p")


def test_a_plan_that_can_be_run_passes(tiny: str) -> None:
    defenses = ["none", "gaussian", {"name": "raid", "eta": 0.0}, "blurme"]
    plan = attribute(tiny, defense=defenses, target=["gender", "gender+handedness"], surface=["vectors", "lists"])
    assert check_plan(plan) == 4 * 2 * 2
    served = membership(tiny, defense=["none", {"name": "popularity", "pool": 10}], serving=["popular", "fold-in"])
    assert check_plan(served) == 2 * 2


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        ({"model": ["bprmf", "lightgnc"]}, "No model is called 'lightgnc'. Did you mean 'lightgcn'"),
        ({"model": [{"name": "bprmf", "epoch": 3}]}, "No option of model 'bprmf' is called 'epoch'"),
        ({"defense": ["none", "slised"]}, "No defense is called 'slised'. Did you mean 'sliced'"),
        ({"defense": [{"name": "raid", "etta": 1}]}, "No option of defense 'raid' is called 'etta'"),
        ({"defense": ["popularity"]}, "defends lists, not vectors"),
        ({"target": ["gender", "height"]}, "No attribute in .* is called 'height'.*gender, handedness"),
        ({"target": ["gender+age"]}, "No attribute in .* is called 'age'"),
        ({"panel": ["ful"]}, "No panel or attacker is called 'ful'. Did you mean 'full'"),
        ({"panel": ["qda,logistc"]}, "No attacker is called 'logistc'. Did you mean 'logistic'"),
        ({"surface": ["list"]}, "No surface is called 'list'. Did you mean 'lists'"),
        ({"leak_ratio": [0.9]}, "A leak ratio of 0.9 is not possible with 5 folds"),
    ],
)
def test_the_first_mistake_in_an_attribute_plan_is_named(tiny: str, axes: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        check_plan(attribute(tiny, **axes))


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        ({"target": ["alz"]}, "No model is called 'alz'. Did you mean 'als'"),
        ({"shadow": [{"name": "als", "epoch": 1}]}, "No option of model 'als' is called 'epoch'"),
        ({"attack": ["dlmai"]}, "No membership attack is called 'dlmai'. Did you mean 'dlmia'"),
        ({"serving": ["fold"]}, "'fold'. Did you mean 'fold-in'"),
        ({"defense": ["popular"]}, "No list defense is called 'popular'. Did you mean 'popularity'"),
        ({"defense": [{"name": "popularity", "pol": 3}]}, "No option of defense 'popularity' is called 'pol'"),
        ({"generator": ["factor"]}, "No generator of item vectors is called 'factor'. Did you mean 'factors'"),
    ],
)
def test_the_first_mistake_in_a_membership_plan_is_named(tiny: str, axes: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        check_plan(membership(tiny, **axes))


def test_data_that_do_not_exist_are_named(tmp_path: object) -> None:
    with pytest.raises(RecveilError, match="No data set is called 'ml-1mm'. Did you mean 'ml-1m'"):
        check_plan(attribute("ml-1mm"))
    with pytest.raises(DataError, match=r"none\.csv"):
        check_plan(attribute(f"{tmp_path}/none.csv"))
