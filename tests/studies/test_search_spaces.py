import pytest

from recveil.audits.catalog import DEFENSES, make, place_of
from recveil.core.errors import UsageError
from recveil.studies.search_spaces import SPACES, OneOf, space_of


@pytest.mark.parametrize("name", SPACES)
def test_every_end_of_every_knob_is_a_setting_that_the_defense_takes(name: str) -> None:
    for knob, spread in SPACES[name].items():
        values = spread.words if isinstance(spread, OneOf) else (spread.low, spread.high)
        for value in values:
            made = make("defense", name, DEFENSES[place_of(name)], **{knob: value})
            assert getattr(made, knob) == value
        assert spread.distribution().single() is False


def test_every_defense_that_acts_on_attributes_can_be_tuned() -> None:
    known = {name for place in ("data", "training", "embeddings") for name in DEFENSES[place]}
    assert set(SPACES) == known


def test_names_that_nothing_has_and_defenses_without_knobs_are_told_apart() -> None:
    with pytest.raises(UsageError, match="No defense is called 'slicd'. Did you mean 'sliced'"):
        space_of("slicd")
    with pytest.raises(UsageError, match="No defense with knobs to tune is called 'popularity'"):
        space_of("popularity")
