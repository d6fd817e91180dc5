from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pytest

from recveil.core.errors import DataError
from recveil.data.io.json_lines import read_json_lines, take_first_known


def test_ids_become_numbers_where_all_are_and_packed_files_are_read(tmp_path: Path) -> None:
    text = b'{"user_id": "7", "item_id": "a"}\n{"user_id": "8", "item_id": "9", "size": 3}\n'
    (tmp_path / "rows.json.gz").write_bytes(gzip.compress(text))
    rows = read_json_lines(tmp_path / "rows.json.gz")
    assert rows.column("user_id").to_pylist() == [7, 8]
    assert rows.column("item_id").to_pylist() == ["a", "9"]
    assert rows.column("size").to_pylist() == [None, 3]


def test_the_first_known_value_of_each_user_counts() -> None:
    rows = pa.table({"user_id": [1, 1, None, 2], "body type": [None, "pear", "apple", "petite"]})
    users = take_first_known(rows, {"body type": "body_type", "height": "height"})
    assert sorted(map(tuple, (row.values() for row in users.to_pylist()))) == [(1, "pear"), (2, "petite")]


def test_text_that_is_not_json_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "rows.json").write_text("{")
    with pytest.raises(DataError, match="cannot be read"):
        read_json_lines(tmp_path / "rows.json")
