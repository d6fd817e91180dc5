"""Ids of different kinds match by what they say, and bad ones are named."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from recveil.core.errors import DataError
from recveil.data.io.ids import (
    Ids,
    as_numpy,
    find_positions,
    normalize_ids,
    refuse_duplicates,
    require_positions,
    unify_types,
)


@pytest.mark.parametrize(
    "ids",
    [
        pa.array([3, 1, 2], pa.int32()),
        pa.array([3, 1, 2], pa.uint8()),
        pa.array([3.0, 1.0, 2.0]),
        pa.chunked_array([[3], [1, 2]]),
        np.array([3, 1, 2]),
        pa.array([3, 1, 2]).dictionary_encode(),
    ],
)
def test_whole_numbers_of_any_kind_become_the_same(ids: Ids) -> None:
    assert normalize_ids(ids, "here").equals(pa.array([3, 1, 2], pa.int64()))


@pytest.mark.parametrize("ids", [pa.array(["a", "b"]), np.array(["a", "b"]), pa.array(["a", "b"]).dictionary_encode()])
def test_text_of_any_kind_becomes_the_same(ids: Ids) -> None:
    assert normalize_ids(ids, "here").to_pylist() == ["a", "b"]


def test_numbers_match_text_that_says_the_same() -> None:
    there, here = unify_types(normalize_ids(pa.array(["12", "7", "x"]), "a"), normalize_ids(np.array([7, 12]), "b"))
    assert find_positions(there, here).tolist() == [1, 0, -1]
    there, here = unify_types(normalize_ids(pa.array(["007"]), "a"), normalize_ids(np.array([7]), "b"))
    assert find_positions(there, here).tolist() == [-1]


@pytest.mark.parametrize(
    "ids",
    [
        pa.array(["a", None, ""]),
        pa.array([None, None], pa.string()),
        pa.array([1, None, None]),
        pa.array([1.0, None, np.nan]),
    ],
)
def test_missing_ids_are_counted(ids: Ids) -> None:
    with pytest.raises(DataError, match=r"2 rows of there have no id"):
        normalize_ids(ids, "there")


@pytest.mark.parametrize("ids", [pa.array([1.5]), pa.array([[1]]), pa.array([2**64 - 1], pa.uint64())])
def test_fractions_and_missing_ids_are_refused(ids: Ids) -> None:
    with pytest.raises(DataError, match="whole number"):
        normalize_ids(ids, "there")


def test_unknown_ids_are_counted_and_one_is_shown() -> None:
    assert require_positions(pa.array([5, 4, 5]), np.array([4, 5]), "f.csv", "user").tolist() == [1, 0, 1]
    with pytest.raises(
        DataError, match=r"f\.csv names 2 unknown users, for instance '9' \(the first known one is '4'\)"
    ):
        require_positions(pa.array([5, 9, 9, 8]), np.array([4, 5]), "f.csv", "user")


def test_ids_given_twice_are_counted_and_one_is_shown() -> None:
    refuse_duplicates(pa.array([1, 2]), "f.csv", "user")
    with pytest.raises(DataError, match=r"f\.csv has 1 user more than once, for instance '2'"):
        refuse_duplicates(pa.array([1, 2, 2, 2]), "f.csv", "user")


def test_as_numpy_keeps_the_ids() -> None:
    assert as_numpy(pa.array(["a", "b"])).tolist() == ["a", "b"]
    assert as_numpy(pa.array([1, 2])).dtype == np.int64
