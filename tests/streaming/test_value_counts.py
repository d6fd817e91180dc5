"""Counts of distinct values: pieces add up to the whole, and columns without classes are refused."""

from __future__ import annotations

import pyarrow as pa
import pytest

from recveil.core.errors import DataError
from recveil.streaming import value_counts
from recveil.streaming.value_counts import COUNT_COLUMN, count_values, merge_values


def test_pieces_add_up_to_the_whole() -> None:
    table = pa.table({"gender": ["F", "M", None, "F", "M", "F"], "age": [1, 2, 1, 1, 2, 3]})
    names = table.column_names
    merged = merge_values(count_values(table.slice(0, 2), names), count_values(table.slice(2), names))
    whole = count_values(table, names)
    keys = [(name, "ascending") for name in [*names, COUNT_COLUMN]]
    assert merged.sort_by(keys).to_pydict() == whole.sort_by(keys).to_pydict()
    assert sum(whole[COUNT_COLUMN].to_pylist()) == 6


def test_a_column_of_numbers_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(value_counts, "MAX_DISTINCT_VALUES", 3)
    piece = count_values(pa.table({"income": [1.5, 2.5, 3.5]}), ["income"])
    assert merge_values(piece, piece).num_rows == 3
    other = count_values(pa.table({"income": [4.5]}), ["income"])
    with pytest.raises(DataError, match="income have more than 3 distinct values"):
        merge_values(piece, other)
