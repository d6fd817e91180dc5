"""The registry of defenses: every method declares its facts in its own file, and listing them imports nothing heavy."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from importlib import import_module

import pytest

from recveil.core.traits import Choice
from recveil.defenses import DEFENSES

PLACES = {
    "data": ["blurme", "ldp", "retrain"],
    "embeddings": [
        "adversarial-pot",
        "attrcloak",
        "attrcloak-dd",
        "attrcloak-df",
        "d2d",
        "exchange",
        "gaussian",
        "labelfree",
        "leace",
        "noise",
        "raid-pot",
        "sliced",
        "u2u",
    ],
    "lists": ["decoys", "popularity"],
    "training": ["adversarial", "d2d-int", "raid", "rap", "u2u-int"],
}


def test_every_defense_is_listed_at_its_place() -> None:
    places = {place: [t.name for t in DEFENSES.all_traits() if t.place == place] for place in PLACES}
    assert places == PLACES
    assert list(DEFENSES) == sorted(name for names in PLACES.values() for name in names)


@pytest.mark.parametrize("name", list(DEFENSES))
def test_the_declaration_read_from_the_source_is_the_one_that_is_imported(name: str) -> None:
    read = DEFENSES.traits(name)
    module = import_module(DEFENSES.load(name).__module__)
    (declared,) = (traits for traits in module.METHODS if traits.name == name)
    assert replace(read, summary="") == replace(declared, summary="")
    assert f"recveil.defenses.{read.place}." in module.__name__
    assert read.summary
    assert read.summary == (DEFENSES.load(name).__doc__ or "").split("\n")[0]


@pytest.mark.parametrize("name", list(DEFENSES))
def test_a_defense_takes_both_ends_of_its_search_space(name: str) -> None:
    for option, space in DEFENSES.traits(name).search_space.items():
        for value in space.words if isinstance(space, Choice) else (space.low, space.high):
            assert getattr(DEFENSES.make(name, **{option: value}), option) == value


def test_listing_defenses_imports_no_torch() -> None:
    code = (
        "import sys; from recveil.defenses import DEFENSES; "
        "print(len(DEFENSES.all_traits()), sorted({'torch', 'sklearn'} & sys.modules.keys()))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == f"{sum(map(len, PLACES.values()))} []"
