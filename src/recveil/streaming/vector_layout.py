"""Vectors in the columns of a Parquet file: which columns hold them, how they are read, how they are written back.

Floats of 32 and 64 bits are written back in the type they had, other numbers as 32-bit floats, as in memory: a defended
vector is not made of whole numbers, and may not fit into 16 bits. Truth values and text are no vectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch
import torch.utils.dlpack
from numpy.typing import NDArray

from recveil.core.errors import DataError
from recveil.core.types import FloatArray
from recveil.data.io.vector_columns import find_vector_columns as find_named_columns
from recveil.data.io.vector_columns import is_list
from recveil.data.io.vectors import Layout, parse_vectors

__all__ = [
    "check_scale",
    "convert_schema",
    "extract_vectors",
    "find_vector_columns",
    "has_plain_vectors",
    "keeps_number_type",
    "replace_vector_columns",
    "view_as_tensor",
]

MAX_MAGNITUDE = 1e15
"""Largest number in a vector; squares of larger ones overflow in single precision once they are added up."""

MIN_SPREAD = 1e-15
"""Least standard deviation of a column that varies at all; squares of smaller ones vanish in single precision."""


def find_vector_columns(schema: pa.Schema, path: Path, named: Sequence[str] = ()) -> tuple[str, ...]:
    """Find the columns of the vectors, which must hold numbers.

    Args:
        schema: schema of the table.
        path: file of the table, for errors.
        named: names that were given; the usual ones if there are none.

    Raises:
        DataError: there are none, a name occurs twice, or they hold something else.
    """
    repeated = sorted({name for name in schema.names if schema.names.count(name) > 1})
    if repeated:
        raise DataError(f"{path} has more than one column '{repeated[0]}'. Rename or remove all but one.")
    columns = find_named_columns(schema, path, named)
    is_single = len(columns) == 1 and (columns[0] == "embedding" or is_list(schema.field(columns[0]).type))
    for name in columns:
        kind = schema.field(name).type
        if is_list(kind) != is_single or not _is_number(_get_number_type(kind)):
            expected = "lists of numbers" if is_single else "numbers"
            raise DataError(
                f"The column '{name}' of {path} holds {kind}. A large table needs {expected} there: write its vectors "
                "as 32-bit floats."
            )
    return columns


def keeps_number_type(schema: pa.Schema, columns: Sequence[str]) -> bool:
    """Tell whether all numbers of the vectors keep their type when they are written."""
    return all(_is_kept(_get_number_type(schema.field(name).type)) for name in columns)


def has_plain_vectors(schema: pa.Schema, columns: Sequence[str]) -> bool:
    """Tell whether the vectors lie in memory as float32 rows."""
    kind = schema.field(columns[0]).type
    return bool(pa.types.is_fixed_size_list(kind) and kind.value_type == pa.float32())


def convert_schema(schema: pa.Schema, columns: Sequence[str], dropped: Sequence[str] = ()) -> pa.Schema:
    """Return the schema in which a table is written.

    Args:
        schema: schema of the table that was read.
        columns: columns of its vectors.
        dropped: columns to leave out.
    """
    converted = pa.schema(
        [_convert_field(field) if field.name in columns else field for field in schema if field.name not in dropped],
        schema.metadata,
    )
    if converted.equals(schema):
        return schema
    # Data frame libraries describe each column there, with its old type.
    metadata = {key: value for key, value in (schema.metadata or {}).items() if key != b"pandas"}
    return converted.with_metadata(metadata)


def extract_vectors(batch: pa.RecordBatch, id_column: str, columns: Sequence[str], path: Path) -> NDArray[np.float32]:
    """Return the vectors of a batch, without a copy where they are float32 rows.

    Args:
        batch: rows of a table; the id column is needed unless the vectors are plain.
        id_column: column of the user ids, for errors.
        columns: columns of the vectors.
        path: file of the table, for errors.

    Raises:
        DataError: a vector or one of its numbers is missing.
    """
    if not has_plain_vectors(batch.schema, columns):
        return parse_vectors(
            pa.Table.from_batches([batch]).select([id_column, *columns]), path, layout=Layout(tuple(columns), id_column)
        ).x
    lists = batch.column(columns[0])
    values = lists.flatten()
    if lists.null_count or values.null_count:
        raise DataError(f"Some rows of {path} have no vector, or one with missing numbers. Remove or repair them.")
    return np.asarray(values.to_numpy()).reshape(-1, lists.type.list_size)


def replace_vector_columns(
    batch: pa.RecordBatch, x: FloatArray, columns: Sequence[str], schema: pa.Schema
) -> pa.RecordBatch:
    """Return the batch with other vectors, in a schema made by `convert_schema`.

    Args:
        batch: rows of a table.
        x: their new vectors.
        columns: columns of the vectors.
        schema: the schema.
    """
    arrays = []
    for field in schema:
        if field.name not in columns:
            arrays.append(batch.column(field.name))
        elif pa.types.is_nested(field.type):
            arrays.append(_make_lists(x, field.type))
        else:
            arrays.append(pa.array(x[:, columns.index(field.name)]).cast(field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def view_as_tensor(x: FloatArray) -> torch.Tensor:
    """View an array as a tensor without a copy; the tensor must not be written to."""
    tensor: torch.Tensor = torch.utils.dlpack.from_dlpack(x)  # unlike from_numpy it takes read-only arrays
    return tensor


def check_scale(largest: float, spread: float, path: Path) -> None:
    """Refuse vectors whose squares overflow or vanish in single precision.

    Args:
        largest: size of the largest numbers.
        spread: largest standard deviation of a column.
        path: the table, for errors.
    """
    if largest > MAX_MAGNITUDE:
        raise DataError(
            f"The vectors in {path} hold numbers of about {largest:.0e}, and at most {MAX_MAGNITUDE:.0e} can be "
            "computed with. Divide all of them by one number."
        )
    if 0 < spread < MIN_SPREAD:
        raise DataError(
            f"The vectors in {path} differ by about {spread:.0e}, and at least {MIN_SPREAD:.0e} is needed to compute "
            "with them. Multiply all of them by one number."
        )


def _get_number_type(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if is_list(kind) else kind


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_decimal(kind))


def _is_kept(kind: pa.DataType) -> bool:
    return kind in (pa.float32(), pa.float64())


def _convert_field(field: pa.Field) -> pa.Field:
    kind = field.type
    if not pa.types.is_nested(kind):
        return field if _is_kept(kind) else field.with_type(pa.float32())
    if _is_kept(kind.value_type):
        return field
    numbers = kind.value_field.with_type(pa.float32())
    if pa.types.is_fixed_size_list(kind):
        return field.with_type(pa.list_(numbers, kind.list_size))
    return field.with_type(pa.list_(numbers) if pa.types.is_list(kind) else pa.large_list(numbers))


def _make_lists(x: FloatArray, kind: pa.DataType) -> pa.Array:
    numbers = pa.array(x.reshape(-1)).cast(kind.value_type)
    if pa.types.is_fixed_size_list(kind):
        return pa.FixedSizeListArray.from_arrays(numbers, type=kind)
    offsets = np.arange(0, x.size + 1, x.shape[1])
    if pa.types.is_list(kind):
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), numbers, type=kind)
    return pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), numbers, type=kind)
