"""Vectors in columns: read as floats, written in the type they had or as floats, and refused if they are no numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from recveil.core.errors import DataError
from recveil.streaming.vector_layout import (
    check_scale,
    convert_schema,
    extract_vectors,
    find_vector_columns,
    keeps_number_type,
    replace_vector_columns,
)

KINDS = [
    pa.list_(pa.float32(), 2),
    pa.list_(pa.field("n", pa.float32(), nullable=False), 2),
    pa.list_(pa.float64()),
    pa.large_list(pa.float32()),
    pa.list_(pa.float16()),
    pa.list_(pa.int8(), 2),
    pa.large_list(pa.uint64()),
    pa.list_(pa.decimal128(30, 1)),
]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_vectors_come_back_changed_and_other_columns_as_they_are(kind: pa.DataType) -> None:
    numbers = pa.array([1, 2, 3, 4]).cast(kind.value_type)
    rows = pa.array([numbers[:2].to_pylist(), numbers[2:].to_pylist()], kind)
    batch = pa.record_batch({"user_id": [7, 8], "embedding": rows, "plan": ["a", None], "gender": ["F", "M"]})
    columns = find_vector_columns(batch.schema, Path("f"))
    x = extract_vectors(batch, "user_id", columns, Path("f"))
    np.testing.assert_array_equal(x, np.array([[1, 2], [3, 4]], np.float32))
    schema = convert_schema(batch.schema, columns, ["gender"])
    changed = replace_vector_columns(batch, x / 2, columns, schema)
    assert changed.column("embedding").to_pylist() == [[0.5, 1.0], [1.5, 2.0]]
    assert changed.select(["user_id", "plan"]).equals(batch.select(["user_id", "plan"]))
    is_kept = kind.value_type in (pa.float32(), pa.float64())
    assert keeps_number_type(batch.schema, columns) == is_kept
    assert (changed.schema.field("embedding").type == kind) == is_kept


def test_numbered_columns_keep_their_order_and_each_its_type() -> None:
    batch = pa.record_batch({"emb_1": pa.array([1.0, 2.0]), "user_id": [7, 8], "emb_0": pa.array([3, 4], pa.int8())})
    columns = find_vector_columns(batch.schema, Path("f"))
    x = extract_vectors(batch, "user_id", columns, Path("f"))
    np.testing.assert_array_equal(x, [[3, 1], [4, 2]])
    changed = replace_vector_columns(batch, x, columns, convert_schema(batch.schema, columns))
    assert changed.schema.names == batch.schema.names
    assert [changed.schema.field(name).type for name in columns] == [pa.float32(), pa.float64()]


def test_an_unchanged_schema_keeps_the_notes_of_data_frame_libraries_and_another_does_not() -> None:
    plain = pa.schema({"user_id": pa.int64(), "embedding": pa.list_(pa.float32(), 2)}, {"pandas": "{}", "by": "us"})
    assert convert_schema(plain, ["embedding"]).metadata == plain.metadata
    assert convert_schema(plain, ["embedding"], ["user_id"]).metadata == {b"by": b"us"}


@pytest.mark.parametrize("kind", [pa.list_(pa.bool_()), pa.list_(pa.string()), pa.string(), pa.float32(), pa.null()])
def test_columns_without_vectors_are_refused(kind: pa.DataType) -> None:
    with pytest.raises(DataError, match="A large table needs lists of numbers"):
        find_vector_columns(pa.schema({"user_id": pa.int64(), "embedding": kind}), Path("f"))


def test_repeated_and_missing_columns_are_refused() -> None:
    numbers = ("emb_0", pa.float32())
    for fields in ([numbers, numbers], [("emb_00", pa.float32())], [("other", pa.float32())]):
        with pytest.raises(DataError):
            find_vector_columns(pa.schema(fields), Path("f"))


def test_scales_that_single_precision_cannot_square_are_refused() -> None:
    check_scale(1e14, 1e14, Path("f"))
    check_scale(1.0, 0.0, Path("f"))  # all vectors are the same
    for largest, spread in ((1e20, 1.0), (1e-42, 1e-42)):
        with pytest.raises(DataError, match="all of them by one number"):
            check_scale(largest, spread, Path("f"))
