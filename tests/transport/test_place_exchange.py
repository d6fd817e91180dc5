"""Exchange of places: a permutation of the rows, trades only where a class is scarce, kernels of parts of a table."""

from __future__ import annotations

import numpy as np
import pytest

from recveil.transport import class_evidence, place_exchange
from recveil.transport.place_exchange import exchange_places


def test_movers_take_the_nearest_places_that_need_their_class() -> None:
    x = np.array([[0.0], [1.0], [10.0], [11.0]])
    labels = np.array([0, 1, 0, 1])
    need = np.where(np.eye(2)[labels] > 0, -1.0, 1.0)  # every mover's class is in excess where it is
    np.testing.assert_array_equal(place_exchange._assign_places(x, labels, need), [1, 0, 3, 2])


def test_a_table_with_kernels_of_parts_is_still_a_permutation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(class_evidence, "MAX_USERS_OF_KERNEL", 200)
    rng = np.random.default_rng(0)
    codes = np.arange(500) % 2
    codes[:10] = -1
    x = rng.standard_normal((500, 3)) + 2 * codes[:, None]
    rows = exchange_places(x, codes, np.random.default_rng(0))
    np.testing.assert_array_equal(np.sort(rows), np.arange(500))
    np.testing.assert_array_equal(rows[:10], np.arange(10))
    assert (rows != np.arange(500)).mean() > 0.1


def test_a_part_that_lacks_a_rare_class_is_traded_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(class_evidence, "MAX_USERS_OF_KERNEL", 150)
    codes = np.r_[0, 0, 1 + np.arange(298) % 2]
    x = np.random.default_rng(0).standard_normal((300, 3)) + 2 * codes[:, None]
    rows = exchange_places(x, codes, np.random.default_rng(1))
    np.testing.assert_array_equal(np.sort(rows), np.arange(300))
    assert (rows != np.arange(300)).any()


@pytest.mark.parametrize("codes", [np.zeros(40, int), np.full(40, -1), np.r_[0, 1, np.full(38, -1)]])
def test_one_class_or_too_few_users_stay(codes: np.ndarray) -> None:
    x = np.random.default_rng(0).standard_normal((40, 2))
    np.testing.assert_array_equal(exchange_places(x, codes, np.random.default_rng(0)), np.arange(40))
