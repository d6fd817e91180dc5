"""A contract is worth what it catches: each broken defense here must fail with the sentence that names its fault."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from recveil.core.types import Dataset
from recveil.defenses.data.retrain import Retrain
from recveil.testing.contracts_data import check_data_defense

Wrap = Callable[[Dataset, Dataset], Dataset]


@dataclass(frozen=True)
class Broken:
    """A sound defense with something done to what it gives."""

    wrap: Wrap
    strength: float = 1.0

    def __call__(self, train: Dataset, targets: list[str], *, rng: np.random.Generator) -> Dataset:
        out = Retrain(strength=self.strength)(train, targets, rng=rng)
        return self.wrap(out, train) if len(out) < len(train) else out


def twice(out: Dataset, train: Dataset) -> Dataset:
    return out.take(np.repeat(np.arange(len(out)), 2))


def renumbered(out: Dataset, train: Dataset) -> Dataset:
    return replace(out, item_ids=out.item_ids[:-1])


def no_attributes(out: Dataset, train: Dataset) -> Dataset:
    return replace(out, attributes={})


def other_labels(out: Dataset, train: Dataset) -> Dataset:
    gender = out.attributes["gender"]
    return replace(out, attributes={**out.attributes, "gender": replace(gender, codes=gender.codes[::-1])})


def narrow(out: Dataset, train: Dataset) -> Dataset:
    return replace(out, user=out.user.astype(np.int32))


def timeless(out: Dataset, train: Dataset) -> Dataset:
    return replace(out, time=None)


def float_times(out: Dataset, train: Dataset) -> Dataset:
    return out if out.time is None else replace(out, time=out.time.astype(np.float64))


def another_time(out: Dataset, train: Dataset) -> Dataset:
    return out if out.time is None else replace(out, time=out.time + 1)


def shuffled(out: Dataset, train: Dataset) -> Dataset:
    return out.take(np.random.default_rng(0).permutation(len(out)))


def foreign_item(out: Dataset, train: Dataset) -> Dataset:
    return replace(out, item=np.where(np.arange(len(out)) == 0, out.n_items, out.item))


def nothing(out: Dataset, train: Dataset) -> Dataset:
    return train


def own_generator(out: Dataset, train: Dataset) -> Dataset:
    return out.take(np.random.default_rng().random(len(out)) < 0.9)


def all_or_nothing(out: Dataset, train: Dataset) -> Dataset:
    return train.take(np.arange(len(train)) % 2 == 0)


def fails_on_idle_users(out: Dataset, train: Dataset) -> Dataset:
    idle = np.bincount(train.user, minlength=train.n_users) == 0
    return twice(out, train) if idle.any() else out


def made_up_times(out: Dataset, train: Dataset) -> Dataset:
    return out if out.time is not None else replace(out, time=np.arange(len(out)))


def test_a_sound_defense_passes() -> None:
    check_data_defense(lambda **options: Broken(lambda out, train: out, **options))


@pytest.mark.parametrize(
    ("wrap", "complaint"),
    [
        (twice, "an item twice"),
        (renumbered, "items are not those"),
        (no_attributes, "attributes are not those"),
        (other_labels, "'gender' was changed"),
        (narrow, "must be int64"),
        (timeless, "times were lost"),
        (float_times, "times were int64"),
        (another_time, "its user did nothing"),
        (shuffled, "order of user and time"),
        (foreign_item, "not one of the data set"),
        (nothing, "nothing was changed"),
        (own_generator, "same seed"),
        (all_or_nothing, "At strength 0.3"),
        (fails_on_idle_users, "an item twice"),
        (made_up_times, "Times were made up"),
    ],
)
def test_a_broken_defense_is_noticed(wrap: Wrap, complaint: str) -> None:
    with pytest.raises(AssertionError, match=complaint):
        check_data_defense(lambda **options: Broken(wrap, **options))


def test_a_change_at_strength_zero_is_noticed() -> None:
    with pytest.raises(AssertionError, match="Strength 0"):
        check_data_defense(lambda strength=1.0: Retrain(strength=strength or 0.5))


def test_accepting_any_name_is_noticed() -> None:
    @dataclass(frozen=True)
    class Careless:
        strength: float = 1.0

        def __call__(self, train: Dataset, targets: list[str], *, rng: np.random.Generator) -> Dataset:
            return Retrain(strength=self.strength)(train, [], rng=rng)

    with pytest.raises(AssertionError, match="without an error"):
        check_data_defense(Careless)


def test_writing_into_the_input_is_noticed() -> None:
    @dataclass(frozen=True)
    class InPlace:
        strength: float = 1.0

        def __call__(self, train: Dataset, targets: list[str], *, rng: np.random.Generator) -> Any:
            train.item[:] = rng.permutation(train.item)
            return train

    with pytest.raises(ValueError, match="read-only"):
        check_data_defense(InPlace)
