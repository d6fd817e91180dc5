from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from recveil.core.errors import DataError
from recveil.data.io.vector_columns import find_numbered_columns, find_vector_columns, is_list, parse_matrix

FILE = Path("f.parquet")
LISTS = pa.list_(pa.float32())


@pytest.mark.parametrize(
    ("fields", "named", "expected"),
    [
        ([("user_id", pa.int64()), ("embedding", LISTS), ("vec", LISTS)], (), ("embedding",)),
        ([("user_id", pa.int64()), ("vec", pa.list_(pa.float64(), 3)), ("seen", pa.list_(pa.int64()))], (), ("vec",)),
        ([("b_1", pa.float32()), ("b_0", pa.float32()), ("c", LISTS)], ("b_*",), ("b_1", "b_0")),
        ([("b", pa.float32()), ("a", pa.float32())], ("a", "b"), ("a", "b")),
        ([("emb_1", pa.float32()), ("emb_0", pa.float32()), ("vec", LISTS)], (), ("emb_0", "emb_1")),
    ],
)
def test_columns_are_found(fields: list[tuple[str, pa.DataType]], named: tuple[str, ...], expected: object) -> None:
    assert find_vector_columns(pa.schema(fields), FILE, named) == expected


def test_columns_that_do_not_exist_are_refused() -> None:
    schema = pa.schema([("user_id", pa.int64()), ("a", LISTS), ("b", LISTS)])
    for named, message in [((), "Name the columns of the vectors by `vectors`"), (("vec",), "no column 'vec'. Its")]:
        with pytest.raises(DataError, match=message):
            find_vector_columns(schema, FILE, named)
    with pytest.raises(DataError, match="no column 'f_\\*'"):
        find_vector_columns(schema, FILE, ("f_*",))
    assert find_numbered_columns(["emb_0"], FILE) == ("emb_0",)
    assert not is_list(pa.float32())


def test_text_that_holds_no_numbers_is_refused() -> None:
    table = pa.table({"user_id": [1, 2], "name": ["Ann", "Bob"], "n": [1.0, 2.0], "text": ["1 2", "[3, 4]"]})
    np.testing.assert_array_equal(parse_matrix(table, "user_id", ("text",), FILE), [[1, 2], [3, 4]])
    np.testing.assert_array_equal(parse_matrix(table, "user_id", ("n",), FILE), [[1], [2]])
    for columns in (("name",), ("n", "name")):
        with pytest.raises(DataError, match="'name' of f.parquet does not hold numbers"):
            parse_matrix(table, "user_id", columns, FILE)
