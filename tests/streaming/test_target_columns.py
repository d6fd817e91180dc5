"""Columns of attributes: values of any plain type are counted, and the same rules hold in the table and beside it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from recveil.core.errors import DataError, UsageError
from recveil.streaming.target_columns import (
    check_target_column,
    convert_views,
    describe_overlap,
    find_id_column,
    list_target_columns,
    simplify_values,
)

TEXT = pa.array(["a", "b", None, "a"])


@pytest.mark.parametrize(
    "values",
    [
        TEXT,
        TEXT.cast(pa.string_view()),
        TEXT.cast(pa.binary()),
        TEXT.cast(pa.binary()).cast(pa.binary_view()),
        TEXT.dictionary_encode(),
        pa.chunked_array([TEXT.slice(0, 2), TEXT.slice(2)]).dictionary_encode(),
    ],
)
def test_text_of_any_type_is_the_same_text(values: pa.Array) -> None:
    assert simplify_values(values, "x").to_pylist() == TEXT.to_pylist()
    assert pa.table({"x": simplify_values(values, "x")}).group_by("x").aggregate([]).num_rows == 3


def test_short_floats_and_extension_types_are_plain_values() -> None:
    assert simplify_values(pa.array(np.array([0.5, 2], np.float16)), "x").type == pa.float32()
    ids = pa.array([b"0" * 16, b"1" * 16], pa.binary(16))
    assert simplify_values(pa.ExtensionArray.from_storage(pa.uuid(), ids), "x").to_pylist() == ["0" * 16, "1" * 16]
    with pytest.raises(DataError, match="no text"):
        simplify_values(pa.array([b"\xff"]), "x")


def test_views_are_converted_and_other_values_are_not_touched() -> None:
    assert convert_views(TEXT.cast(pa.string_view())).take(pa.array([1])).to_pylist() == ["b"]
    assert convert_views(TEXT) is TEXT


def test_columns_with_several_values_for_a_user_are_refused() -> None:
    tensor = pa.fixed_shape_tensor(pa.int64(), [2])
    for kind in (pa.list_(pa.int8()), pa.struct({"a": pa.int8()}), pa.map_(pa.string(), pa.int8()), tensor):
        with pytest.raises(DataError, match="not one class for each user"):
            check_target_column(pa.schema({"x": kind}), "x", Path("f"))
    with pytest.raises(DataError, match="more than one column 'x'"):
        check_target_column(pa.schema([("x", pa.int8()), ("x", pa.int8())]), "x", Path("f"))


def test_all_files_of_attributes_must_have_the_same_columns(tmp_path: Path) -> None:
    pq.write_table(pa.table({"user_id": [1], "gender": ["F"]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"user_id": [2], "gender": ["M"]}), tmp_path / "b.parquet")
    assert find_id_column(tmp_path, ["gender"]) == ("user_id", pa.int64())
    with pytest.raises(UsageError, match="Known: gender"):
        find_id_column(tmp_path, ["age"])
    for columns in ({"user_id": [2]}, {"user_id": [2], "gender": [1]}, {"user_id": ["2"], "gender": ["M"]}):
        pq.write_table(pa.table(columns), tmp_path / "b.parquet")
        with pytest.raises(DataError, match="the same columns"):
            find_id_column(tmp_path, ["gender"])


def test_columns_called_like_a_target_are_listed_in_any_case() -> None:
    assert list_target_columns(["Gender", "age", "plan"], ["gender", "AGE"]) == ("Gender", "age")


def test_tables_that_share_under_half_of_their_users_are_refused() -> None:
    assert describe_overlap(10, 10, 10, Path("f")) == []
    assert len(describe_overlap(10, 20, 12, Path("f"))) == 2
    for matched, n_users, n_rows in ((0, 5, 5), (4, 10, 9), (4, 1000, 9)):
        with pytest.raises(DataError, match="in both tables"):
            describe_overlap(matched, n_users, n_rows, Path("f"))
