from dataclasses import FrozenInstanceError

import pytest

from recveil.core.traits import DefenseTraits, Range, Traits


def test_a_method_whose_package_is_missing_is_not_installed() -> None:
    assert Traits("a", builder="A").is_installed
    assert Traits("a", builder="A", extra="numpy").is_installed
    assert not Traits("a", builder="A", extra="a_package_that_nobody_wrote").is_installed


def test_a_range_of_whole_numbers_is_searched_in_whole_numbers() -> None:
    assert Range(1, 8).is_integer
    assert not Range(1, 8.0).is_integer


def test_traits_are_facts_and_cannot_be_changed() -> None:
    traits = DefenseTraits("a", builder="A")
    assert (traits.place, traits.search_space) == ("embeddings", {})
    with pytest.raises(FrozenInstanceError):
        traits.place = "data"  # type: ignore[misc]
