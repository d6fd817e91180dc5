"""Labels as codes: kinds, missing labels, labels that a fit did not meet."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recveil.core.errors import DataError
from recveil.defenses.embeddings.class_labels import apply_classes, encode_classes


class NotAvailable:
    """A missing value like `pandas.NA`, which cannot even say whether it equals itself."""

    def __eq__(self, other: object) -> bool:
        raise TypeError("boolean value of NA is ambiguous")

    __ne__ = __eq__
    __hash__ = object.__hash__


@pytest.mark.parametrize(
    ("y", "codes", "classes"),
    [
        ([0, 1, -1, 1], [0, 1, -1, 1], [0, 1]),
        (np.array([7, 3, 255, 7], dtype=np.uint8), [1, 0, 2, 1], [3, 7, 255]),
        ([5, -3, -1, 5], [1, 0, -1, 1], [-3, 5]),
        ([2.0, np.nan, -1.0, 4.0], [0, -1, -1, 1], [2, 4]),
        ([True, False, None, True], [1, 0, -1, 1], [0, 1]),
        (["m", "f", np.nan, None], [1, 0, -1, -1], ["f", "m"]),
        (np.array(["b", "a", "b", "c"]), [1, 0, 1, 2], ["a", "b", "c"]),
        ([1, 2.0, NotAvailable(), -1], [0, 1, -1, -1], [1, 2]),
        ([None, None, None, None], [-1, -1, -1, -1], []),
    ],
)
def test_labels_become_places_among_the_sorted_classes(y: Any, codes: list[int], classes: list[Any]) -> None:
    found, known = encode_classes(y, 4)
    assert found.tolist() == [[code] for code in codes]
    assert found.dtype == np.int64
    assert [labels.tolist() for labels in known] == [classes]
    np.testing.assert_array_equal(apply_classes(y, known, 4), found)


@given(st.lists(st.sampled_from(["a", "bb", "", None, float("nan")]), min_size=1))
def test_codes_name_the_labels_again(labels: list[Any]) -> None:
    codes, (classes,) = encode_classes(labels, len(labels))
    again = [None if code < 0 else str(classes[code]) for code in codes[:, 0]]
    assert again == [label if isinstance(label, str) else None for label in labels]


def test_each_column_is_an_attribute_of_its_own() -> None:
    y = np.array([["f", 30], ["m", 20], [None, 30]], dtype=object)
    codes, classes = encode_classes(y, 3)
    assert codes.tolist() == [[0, 1], [1, 0], [-1, 1]]
    assert [labels.tolist() for labels in classes] == [["f", "m"], [20, 30]]
    assert apply_classes([["m", 40], ["x", 20]], classes, 2).tolist() == [[1, -1], [-1, 0]]
    assert apply_classes(None, classes, 2).tolist() == [[-1, -1], [-1, -1]]


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([0.5, 1.0], "not whole"),
        ([np.inf, 1.0], "not whole"),
        (["a", 1], "all text or all whole numbers; got int, str"),
        (np.array(["2020-01-01", "2021-01-01"], dtype="datetime64[D]"), "got datetime64"),
        ([0, 1, 2], "each of 2 users"),
        (np.zeros((2, 2, 2)), "each of 2 users"),
        (np.zeros((2, 0)), "each of 2 users"),
    ],
)
def test_labels_that_are_no_classes_are_refused(y: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        encode_classes(y, 2)


def test_labels_of_another_kind_or_number_than_at_the_fit_are_refused() -> None:
    _, text = encode_classes(["a", "b"], 2)
    with pytest.raises(DataError, match="y holds whole numbers, and the map was fitted with text"):
        apply_classes([0, 1], text, 2)
    assert apply_classes([-1, -1], text, 2).tolist() == [[-1], [-1]]  # nobody disclosed anything
    with pytest.raises(DataError, match="y holds 2 attributes"):
        apply_classes([["a", "b"], ["a", "b"]], text, 2)
