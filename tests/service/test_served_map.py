"""The served map: labels, drift, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from recveil.core.errors import DataError, UsageError
from recveil.service import served_map
from recveil.service.served_map import ServedMap
from service.tools import draw_users


@pytest.fixture
def gaussian(maps: dict[str, Path]) -> ServedMap:
    return ServedMap.load(maps["gaussian"])


def test_vectors_take_the_map_of_their_class(gaussian: ServedMap) -> None:
    x, codes = draw_users(3, seed=1)
    labels = np.array(["F", "M"])[codes].tolist()
    carried = gaussian.carry(x, gaussian.encode_labels({"gender": labels}, 3))
    expected = gaussian.saved.fitted(x, codes[:, None], torch.device("cpu"))
    np.testing.assert_allclose(carried.x, expected, atol=1e-6)
    assert carried.unprotected == {"gender": 0}
    assert carried.notes == []


def test_users_without_a_label_are_counted_and_named_unprotected(gaussian: ServedMap) -> None:
    x, _ = draw_users(3)
    carried = gaussian.carry(x, gaussian.encode_labels({"gender": ["F", None, None]}, 3))
    assert carried.unprotected == {"gender": 2}
    assert "2 of 3 users have no known gender" in carried.notes[0]


def test_a_map_that_needs_labels_asks_for_them_and_another_does_not(maps: dict[str, Path], gaussian: ServedMap) -> None:
    with pytest.raises(UsageError, match="no labels of gender"):
        gaussian.encode_labels(None, 2)
    labelfree = ServedMap.load(maps["labelfree"])
    carried = labelfree.carry(draw_users(2)[0], labelfree.encode_labels(None, 2))
    assert carried.unprotected == {"gender": 0}
    assert not labelfree.describe().needs_labels


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ({"gender": ["F"]}, "1 labels"),
        ({"gender": ["F", "X"]}, "never saw the class 'X'"),
        ({"gender": ["F", 1]}, "never saw the class '1'"),
        ({"gender": ["F", "M"], "age": [1, 2]}, "does not protect 'age'"),
    ],
)
def test_labels_that_do_not_fit_are_refused(gaussian: ServedMap, labels: dict[str, list[str]], words: str) -> None:
    with pytest.raises((UsageError, DataError), match=words):
        gaussian.encode_labels(labels, 2)


def test_vectors_of_other_dimensions_and_sizes_are_refused(gaussian: ServedMap) -> None:
    codes = np.zeros((1, 1), dtype=np.int64)
    with pytest.raises(DataError, match="of 4 dimensions, and these have 3"):
        gaussian.carry(np.zeros((1, 3), np.float32), codes)
    with pytest.raises(DataError, match="largest number"):
        gaussian.carry(np.full((1, 4), 1e30, np.float32), codes)


def test_many_users_far_from_the_fit_are_refused_unless_allowed(gaussian: ServedMap) -> None:
    x, codes = draw_users(300, seed=2)
    assert gaussian.carry(x, codes[:, None]).notes == []
    with pytest.raises(DataError, match="not like those that the map was fitted on"):
        gaussian.carry(x + 5, codes[:, None])
    assert "WARNING" in gaussian.carry(x + 5, codes[:, None], allow_drift=True).notes[0]


def test_small_requests_are_compared_once_enough_users_came(
    gaussian: ServedMap, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served_map, "WINDOW_ROWS", 60)
    x, codes = draw_users(120, seed=3)
    for row in range(60):
        gaussian.carry(x[row : row + 1], codes[row : row + 1, None])
    assert gaussian.drift is not None
    assert not gaussian.drift.warns
    assert gaussian.describe().drift is None
    for row in range(60, 120, 2):
        gaussian.carry(x[row : row + 2] + 5, codes[row : row + 2, None])
    assert gaussian.drift.warns
    assert "not like those" in str(gaussian.describe().drift)
