"""Contract of data defenses.

`check_data_defense(MyDefense)` checks every promise. A broken promise raises `AssertionError` with a sentence that
names it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from recveil.core.errors import UsageError
from recveil.core.protocols import DataDefense
from recveil.core.random import make_generator
from recveil.core.types import UNDISCLOSED, Dataset
from recveil.data.synthetic import make_world
from recveil.testing.contracts import seal_array

__all__ = ["check_data_defense"]

LEAKS = {"gender": 2.0, "age": 2.0}


DefenseBuilder = Callable[..., DataDefense]


def check_data_defense(builder: DefenseBuilder) -> None:
    """Check all promises of a data defense.

    Whether it reduces the leak is not among them: input unlearning does not.

    Args:
        builder: makes the defense; `builder(strength=0.5)` must make one of half the strength.
    """
    train = _make_small_world()
    out = _apply_defense(builder(), train)
    _check_ids(out, train)
    _check_interactions(out, train)
    _check_order(out, train)
    assert not _is_equal(out, train), "At full strength nothing was changed."
    assert _is_equal(out, _apply_defense(builder(), train)), "The same seed gave two different data sets."
    assert _is_equal(_apply_defense(builder(strength=0.0), train), train), "Strength 0 must change nothing."
    _check_strength(builder, train, out)
    _check_several_targets(builder, train)
    _check_without_times(builder, train)
    _check_odd_users(builder, train)
    _check_unknown_target(builder, train)


def _make_small_world() -> Dataset:
    """Make a small world, sorted by user and time, in read-only arrays."""
    world = make_world(n_users=200, n_items=80, n_interactions=4_000, leaks=LEAKS, rng=make_generator(0, "contract"))
    train = world.dataset
    return replace(train, user=seal_array(train.user), item=seal_array(train.item), time=seal_array(train.time))


def _apply_defense(defense: DataDefense, train: Dataset, targets: tuple[str, ...] = ("gender",)) -> Dataset:
    return defense(train, list(targets), rng=make_generator(0, "contract", "defense"))


def _is_equal(first: Dataset, second: Dataset) -> bool:
    same_pairs = np.array_equal(first.user, second.user) and np.array_equal(first.item, second.item)
    if first.time is None or second.time is None:
        return same_pairs and first.time is second.time
    return same_pairs and np.array_equal(first.time, second.time)


def _compute_pairs(data: Dataset) -> Any:
    return data.user * data.n_items + data.item


def _check_ids(out: Dataset, train: Dataset) -> None:
    assert isinstance(out, Dataset), "The result must be a Dataset."
    assert np.array_equal(out.user_ids, train.user_ids), "The users are not those of the input."
    assert np.array_equal(out.item_ids, train.item_ids), "The items are not those of the input."
    assert list(out.attributes) == list(train.attributes), "The attributes are not those of the input."
    for name, known in train.attributes.items():
        assert np.array_equal(out.attributes[name].codes, known.codes), f"The attribute '{name}' was changed."


def _check_interactions(out: Dataset, train: Dataset) -> None:
    assert len(out.user) == len(out.item), "Users and items of the interactions differ in number."
    assert out.user.dtype == out.item.dtype == np.int64, "The ids of the interactions must be int64."
    assert ((out.user >= 0) & (out.user < train.n_users)).all(), "A user is not one of the data set."
    assert ((out.item >= 0) & (out.item < train.n_items)).all(), "An item is not one of the data set."
    assert len(np.unique(_compute_pairs(out))) == len(out), "A user has an item twice."
    assert out.time is not None, "The times were lost."
    assert train.time is not None
    assert len(out.time) == len(out), "There is not one time for each interaction."
    assert out.time.dtype == train.time.dtype, f"The times were {train.time.dtype} and are {out.time.dtype}."
    moments = set(zip(train.user.tolist(), train.time.tolist(), strict=True))
    assert set(zip(out.user.tolist(), out.time.tolist(), strict=True)) <= moments, (
        "Something was added at a time at which its user did nothing."
    )


def _check_order(out: Dataset, train: Dataset) -> None:
    """Check that the result is sorted by user and time, as the input is."""
    order = np.lexsort((np.asarray(out.time), out.user))
    assert np.array_equal(order, np.arange(len(out))), "The input was in order of user and time, the result is not."
    before, after = _compute_pairs(train), _compute_pairs(out)
    was_kept, is_kept = np.isin(before, after), np.isin(after, before)
    assert np.array_equal(after[is_kept], before[was_kept]), "Interactions that were kept changed their order."
    times_before, times_after = np.asarray(train.time)[was_kept], np.asarray(out.time)[is_kept]
    assert np.array_equal(times_after, times_before), "Interactions that were kept changed their time."


def _check_strength(builder: DefenseBuilder, train: Dataset, out: Dataset) -> None:
    weaker = _apply_defense(builder(strength=0.3), train)
    less, more = (len(np.setxor1d(_compute_pairs(train), _compute_pairs(data))) for data in (weaker, out))
    assert less < more, f"At strength 0.3 {less} pairs were changed, at strength 1 {more}."


def _check_several_targets(builder: DefenseBuilder, train: Dataset) -> None:
    out = _apply_defense(builder(), train, ("gender", "age"))
    _check_ids(out, train)
    _check_interactions(out, train)
    _check_order(out, train)


def _check_without_times(builder: DefenseBuilder, train: Dataset) -> None:
    bare = replace(train, time=None)
    out = _apply_defense(builder(), bare)
    assert out.time is None, "Times were made up for data that have none."
    assert np.array_equal(np.sort(out.user), out.user), "The input was in order of users, the result is not."


def _check_odd_users(builder: DefenseBuilder, train: Dataset) -> None:
    """Check undisclosed users, a single class, and users without interactions."""
    gender = train.attributes["gender"]
    some_hidden, one_class = gender.codes.copy(), np.zeros_like(gender.codes)
    some_hidden[::5] = UNDISCLOSED
    for codes in (some_hidden, one_class, np.full_like(gender.codes, UNDISCLOSED)):
        odd = replace(train, attributes={**train.attributes, "gender": replace(gender, codes=codes)})
        out = _apply_defense(builder(), odd)
        _check_ids(out, odd)
        _check_interactions(out, odd)
    fewer = train.take(train.user % 10 > 0)
    out = _apply_defense(builder(), fewer)
    _check_ids(out, fewer)
    assert len(np.unique(_compute_pairs(out))) == len(out), "A user has an item twice."
    empty = train.take(np.zeros(len(train), dtype=np.bool_))
    assert len(_apply_defense(builder(), empty)) == 0, "An empty data set got interactions."


def _check_unknown_target(builder: DefenseBuilder, train: Dataset) -> None:
    message = ""
    try:
        _apply_defense(builder(), train, ("gendre",))
    except UsageError as error:
        message = str(error)
    assert message, "An unknown attribute was accepted without an error."
    assert "gender" in message, "The error about an unknown attribute does not name the known ones."
