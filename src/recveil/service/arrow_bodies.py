"""Tables in the body of a request: Arrow or Parquet in, the same form out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet

from recveil.core.errors import DataError
from recveil.data.io.text import cast_to_text
from recveil.data.io.vectors import Vectors, parse_vectors, replace_vectors
from recveil.service.documents import ARROW_STREAM, PARQUET
from recveil.service.served_map import CarriedRows, ServedMap
from recveil.workflows.cloak import drop_targets

__all__ = ["carry_table"]

SOURCE = Path("request.parquet")
"""Name of the table in errors; its ending says that numbers keep their type."""

MAX_UNPACKED_BYTES = 256 << 20
"""Size of a Parquet table in memory, as its footer announces it."""


def carry_table(served: ServedMap, body: bytes, kind: str, *, allow_drift: bool) -> tuple[bytes, CarriedRows]:
    """Carry the vectors of a table; columns of protected attributes are left out of the answer.

    Args:
        served: the map.
        body: the table.
        kind: its content type.
        allow_drift: carry the users even if they are not like those of the fit.

    Raises:
        DataError: the body is no such table, or its vectors cannot be carried.
    """
    table = _read_table(body, kind)
    if len(set(table.column_names)) < table.num_columns:
        raise DataError("The table has two columns of one name. Give each its own name.")
    vectors = parse_vectors(table, SOURCE)
    if not len(vectors.x) or not np.isfinite(vectors.x).all():
        raise DataError("The table has no rows, or vectors with NaN, infinite or missing numbers. Correct it.")
    names = served.origin.attributes
    present = [name for name in names if name in table.column_names]
    labels = {name: cast_to_text(table.column(name), name, SOURCE).to_pylist() for name in present}
    codes = served.encode_labels(labels, len(vectors.x))
    carried = served.carry(vectors.x, codes, allow_drift=allow_drift)
    kept = drop_targets(vectors, names, keep=False)[0]
    return _write_table(_put_vectors(kept, carried), kind), carried


def _put_vectors(vectors: Vectors, carried: CarriedRows) -> pa.Table:
    return replace_vectors(vectors, np.ascontiguousarray(carried.x, dtype=vectors.dtype))


def _read_table(body: bytes, kind: str) -> pa.Table:
    """Read the whole table, and check what its format only claims."""
    try:
        if kind == PARQUET:
            return _read_parquet(body)
        open_reader = pa.ipc.open_stream if kind == ARROW_STREAM else pa.ipc.open_file
        with open_reader(pa.py_buffer(body)) as reader:
            table = reader.read_all()
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError, TypeError) as error:
        reason = (str(error).splitlines() or [""])[0][:100]
        raise DataError(f"The body cannot be read as {kind} ({reason}). Write the table again.") from None
    return table


def _read_parquet(body: bytes) -> pa.Table:
    file = pyarrow.parquet.ParquetFile(pa.BufferReader(body))
    groups = (file.metadata.row_group(number) for number in range(file.metadata.num_row_groups))
    if sum(group.total_byte_size for group in groups) > MAX_UNPACKED_BYTES:
        raise ValueError(f"it takes more than {MAX_UNPACKED_BYTES:,} bytes of memory")
    table = file.read()
    table.validate(full=True)
    return table


def _write_table(table: pa.Table, kind: str) -> bytes:
    sink = pa.BufferOutputStream()
    if kind == PARQUET:
        pyarrow.parquet.write_table(table, sink)
    else:
        make_writer = pa.ipc.new_stream if kind == ARROW_STREAM else pa.ipc.new_file
        with make_writer(sink, table.schema) as writer:
            writer.write_table(table)
    content: bytes = sink.getvalue().to_pybytes()
    return content
