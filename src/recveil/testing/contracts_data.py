"""What every defense of the data promises, as one call: `check_data_defense(MyDefense)`.

Each check raises `AssertionError` with a sentence that says which promise was broken.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from recveil.core.errors import UsageError
from recveil.core.protocols import DataDefense
from recveil.core.random import make_generator
from recveil.core.types import UNDISCLOSED, Dataset
from recveil.data.synthetic import make_world

__all__ = ["check_data_defense"]

LEAKS = {"gender": 2.0, "age": 2.0}


class MakeDefense(Protocol):
    """A constructor; it takes at least `strength`."""

    def __call__(self, **options: Any) -> DataDefense:
        """A defense with these options."""


def check_data_defense(make: MakeDefense) -> None:
    """Check all promises of a defense of the data; `make(strength=0.5)` must give one of half the strength.

    Whether it hides anything is not among them: input unlearning does not.
    """
    train = _world()
    out = _run(make(), train)
    _same_space(out, train)
    _sound_rows(out, train)
    _in_order(out, train)
    assert not _equal(out, train), "At full strength nothing was changed."
    assert _equal(out, _run(make(), train)), "The same seed gave two different data sets."
    assert _equal(_run(make(strength=0.0), train), train), "Strength 0 must change nothing."
    _changes_less(make, train, out)
    _several(make, train)
    _without_times(make, train)
    _odd(make, train)
    _unknown_name(make, train)


def _world() -> Dataset:
    """A small world, in order of user and time, in arrays that nobody can write into."""
    world = make_world(n_users=200, n_items=80, n_interactions=4_000, leaks=LEAKS, rng=make_generator(0, "contract"))
    train = world.dataset
    return replace(train, user=_sealed(train.user), item=_sealed(train.item), time=_sealed(train.time))


def _sealed(array: Any) -> Any:
    """A copy that nobody can write into: who tries to change the input gets an error."""
    copy = np.array(array)
    copy.flags.writeable = False
    return copy


def _run(defense: DataDefense, train: Dataset, targets: tuple[str, ...] = ("gender",)) -> Dataset:
    return defense(train, list(targets), rng=make_generator(0, "contract", "defense"))


def _equal(one: Dataset, two: Dataset) -> bool:
    rows = np.array_equal(one.user, two.user) and np.array_equal(one.item, two.item)
    if one.time is None or two.time is None:
        return rows and one.time is two.time
    return rows and np.array_equal(one.time, two.time)


def _pairs(data: Dataset) -> Any:
    return data.user * data.n_items + data.item


def _same_space(out: Dataset, train: Dataset) -> None:
    assert isinstance(out, Dataset), "The result must be a Dataset."
    assert np.array_equal(out.user_ids, train.user_ids), "The users are not those of the input."
    assert np.array_equal(out.item_ids, train.item_ids), "The items are not those of the input."
    assert list(out.attributes) == list(train.attributes), "The attributes are not those of the input."
    for name, known in train.attributes.items():
        assert np.array_equal(out.attributes[name].codes, known.codes), f"The attribute '{name}' was changed."


def _sound_rows(out: Dataset, train: Dataset) -> None:
    assert len(out.user) == len(out.item), "Users and items of the interactions differ in number."
    assert out.user.dtype == out.item.dtype == np.int64, "The ids of the interactions must be int64."
    assert ((out.user >= 0) & (out.user < train.n_users)).all(), "A user is not one of the data set."
    assert ((out.item >= 0) & (out.item < train.n_items)).all(), "An item is not one of the data set."
    assert len(np.unique(_pairs(out))) == len(out), "A user has an item twice."
    assert out.time is not None, "The times were lost."
    assert train.time is not None
    assert len(out.time) == len(out), "There is not one time for each interaction."
    assert out.time.dtype == train.time.dtype, f"The times were {train.time.dtype} and are {out.time.dtype}."
    moments = set(zip(train.user.tolist(), train.time.tolist(), strict=True))
    assert set(zip(out.user.tolist(), out.time.tolist(), strict=True)) <= moments, (
        "Something was added at a time when its user did nothing."
    )


def _in_order(out: Dataset, train: Dataset) -> None:
    """The input is in order of user and time; and what is kept stays in its order."""
    order = np.lexsort((np.asarray(out.time), out.user))
    assert np.array_equal(order, np.arange(len(out))), "The input was in order of user and time, the result is not."
    both = np.intersect1d(_pairs(train), _pairs(out))
    kept, was = np.isin(_pairs(out), both), np.isin(_pairs(train), both)
    assert np.array_equal(_pairs(out)[kept], _pairs(train)[was]), "Interactions that were kept changed their order."
    assert np.array_equal(np.asarray(out.time)[kept], np.asarray(train.time)[was]), (
        "Interactions that were kept changed their time."
    )


def _changes_less(make: MakeDefense, train: Dataset, out: Dataset) -> None:
    some = _run(make(strength=0.3), train)
    less, more = (len(np.setxor1d(_pairs(train), _pairs(data))) for data in (some, out))
    assert less < more, f"With less strength {less} pairs were changed, with all of it {more}."


def _several(make: MakeDefense, train: Dataset) -> None:
    out = _run(make(), train, ("gender", "age"))
    _same_space(out, train)
    _sound_rows(out, train)
    _in_order(out, train)


def _without_times(make: MakeDefense, train: Dataset) -> None:
    bare = replace(train, time=None)
    out = _run(make(), bare)
    assert out.time is None, "Times were made up for data that have none."
    assert np.array_equal(np.sort(out.user), out.user), "The input was in order of users, the result is not."


def _odd(make: MakeDefense, train: Dataset) -> None:
    """Users of unknown class, of one class only, and users without any interaction are no obstacle."""
    gender = train.attributes["gender"]
    some, one, none = gender.codes.copy(), np.zeros_like(gender.codes), np.full_like(gender.codes, UNDISCLOSED)
    some[::5] = UNDISCLOSED
    for codes in (some, one, none):
        odd = replace(train, attributes={**train.attributes, "gender": replace(gender, codes=codes)})
        out = _run(make(), odd)
        _same_space(out, odd)
        _sound_rows(out, odd)
    fewer = train.take(train.user % 10 > 0)
    out = _run(make(), fewer)
    _same_space(out, fewer)
    assert len(np.unique(_pairs(out))) == len(out), "A user has an item twice."
    assert len(_run(make(), train.take(np.zeros(len(train), dtype=np.bool_)))) == 0, "From no data some were made."


def _unknown_name(make: MakeDefense, train: Dataset) -> None:
    said = ""
    try:
        _run(make(), train, ("gendre",))
    except UsageError as error:
        said = str(error)
    assert said, "An attribute that is not there was taken without a word."
    assert "gender" in said, "The error about an unknown attribute does not name those there are."
