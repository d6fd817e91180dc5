"""Tables of a study: unused columns are left out, and a row says why seeds are missing."""

import pytest

from recveil.studies.cells import Settings
from recveil.studies.pooled_seeds import PooledCell
from recveil.studies.tables import build_table, describe_seeds, make_column, make_row


def test_a_column_without_any_value_is_left_out() -> None:
    rows = [make_row("x", {"a": 1.0, "b": None})]
    table = build_table("i", "t", "n", [make_column("a", "A"), make_column("b", "B")], rows)
    assert [column.key for column in table.columns] == ["a"]


@pytest.mark.parametrize(
    ("done", "errors", "text"),
    [(3, 0, "3"), (2, 1, "2 of 3 (1 failed)"), (1, 1, "1 of 3 (1 failed, 1 not run)"), (0, 0, "0 of 3 (3 not run)")],
)
def test_missing_seeds_are_explained(done: int, errors: int, text: str) -> None:
    cells = PooledCell("attribute", {}, Settings(), wanted=3, results=[None] * done, errors=["E"] * errors)
    assert describe_seeds(cells) == text
