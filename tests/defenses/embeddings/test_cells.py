"""How several attributes become classes."""

from __future__ import annotations

import numpy as np
import pytest

from recveil.core.errors import DataError, UsageError
from recveil.defenses.embeddings.cells import ATTRIBUTE_CYCLES, check_table, find_cells, plan_cells

TABLE = np.zeros((4, 2), dtype=np.float32)


def partition(codes: np.ndarray) -> set[frozenset[int]]:
    return {frozenset(np.flatnonzero(codes == k).tolist()) for k in np.unique(codes[codes >= 0])}


def test_one_attribute_is_one_pass_however_small_its_classes() -> None:
    for codes in (np.array([3, 0, 3, -1, 7]), np.array([[3], [0], [3], [-1], [7]])):
        (only,) = plan_cells(codes, minimum=100)
        assert only.codes.tolist() == [1, 0, 1, -1, 2]
        assert only.n_classes == 3


def test_large_joint_cells_are_one_pass() -> None:
    rng = np.random.default_rng(0)
    codes = rng.permutation(np.repeat(np.stack([np.repeat([0, 1], 3), np.tile([0, 1, 2], 2)], axis=1), 10, axis=0))
    (joint,) = plan_cells(codes, minimum=10)
    assert joint.n_classes == 6
    assert partition(joint.codes) == partition(codes[:, 0] * 3 + codes[:, 1])


def test_small_joint_cells_are_rounds_over_the_attributes() -> None:
    codes = np.stack([np.arange(40) % 2, np.arange(40) % 5], axis=1)
    passes = plan_cells(codes, minimum=5)
    assert len(passes) == 2 * ATTRIBUTE_CYCLES
    for number, cells in enumerate(passes):
        assert partition(cells.codes) == partition(codes[:, number % 2])
    assert len(plan_cells(codes, minimum=4)) == 1


def test_who_disclosed_one_attribute_only_is_not_left_out() -> None:
    """Outside all cells the known attribute of such a user would stay as visible as it was."""
    codes = np.repeat([[0, 0], [0, 1], [1, 0], [1, 1], [0, -1], [1, -1], [-1, -1]], 8, axis=0)
    (joint,) = plan_cells(codes, minimum=8)
    assert joint.n_classes == 6
    np.testing.assert_array_equal(joint.codes == -1, (codes == -1).all(1))
    by_turns = plan_cells(codes, minimum=9)
    np.testing.assert_array_equal(by_turns[0].codes, codes[:, 0])
    np.testing.assert_array_equal(by_turns[1].codes, codes[:, 1])


def test_later_users_find_the_cell_of_those_who_were_there() -> None:
    codes = np.stack([np.arange(40) % 2, np.arange(40) % 5], axis=1)
    codes[::7, 1] = -1
    for minimum in (1, 100):
        for cells in plan_cells(codes, minimum):
            np.testing.assert_array_equal(find_cells(codes, cells.keys), cells.codes)
    (joint,) = plan_cells(codes, 1)
    assert find_cells(np.array([[9, 0], [-1, -1]]), joint.keys).tolist() == [-1, -1]
    with pytest.raises(DataError, match="2 attributes; codes for 1"):
        find_cells(np.zeros(3, dtype=np.int64), joint.keys)


def test_where_nobody_is_known_there_is_nothing_to_do() -> None:
    assert all(cells.n_classes == 0 for cells in plan_cells(np.full((5, 2), -1), minimum=1))
    assert plan_cells(np.full(5, -1), minimum=1)[0].codes.tolist() == [-1] * 5


@pytest.mark.parametrize(
    ("x", "codes", "strength", "kind", "message"),
    [
        (np.zeros(3), np.zeros(3), 1.0, DataError, "at least one row"),
        (np.zeros((0, 3)), np.zeros(0), 1.0, DataError, "at least one row"),
        (TABLE, np.zeros(5), 1.0, DataError, "4 user vectors but codes for 5 users"),
        (np.where(np.eye(4) > 0, np.nan, 1), np.zeros(4), 1.0, DataError, "NaN or infinite"),
        (np.where(np.eye(4) > 0, np.inf, 1), np.zeros(4), 1.0, DataError, "NaN or infinite"),
        (TABLE, np.zeros(4), 1.5, UsageError, "between 0 .* and 1 .*; got 1.5"),
        (TABLE, np.zeros(4), -0.1, UsageError, "got -0.1"),
        (TABLE, np.zeros(4), float("nan"), UsageError, "got nan"),
    ],
)
def test_what_cannot_be_defended_is_refused(
    x: np.ndarray, codes: np.ndarray, strength: float, kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        check_table(x, codes, strength)
