"""Files with one JSON object a line, as clothing shops were published, and the first known value of each user."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.json

from recveil.data.io.text import check_file, describe_read_error, narrow_column

__all__ = ["read_json_lines", "take_first_known"]


def read_json_lines(path: Path) -> pa.Table:
    """Read a file of JSON objects, packed or not; user and item ids become numbers where all of them are.

    Raises:
        DataError: the file is not there or is not JSON.
    """
    path = check_file(path)
    try:
        with pa.input_stream(str(path), compression="detect") as stream:
            content = stream.read()
        # One block, so that a field has one type throughout the file.
        options = pyarrow.json.ReadOptions(block_size=max(len(content), 1))
        rows = pyarrow.json.read_json(pa.BufferReader(content), read_options=options)
    except (pa.ArrowException, OSError, EOFError) as error:
        raise describe_read_error(path, error) from error
    ids = [name for name in ("user_id", "item_id") if name in rows.column_names]
    for name in ids:
        rows = rows.set_column(rows.column_names.index(name), name, narrow_column(rows.column(name).cast(pa.string())))
    return rows


def take_first_known(rows: pa.Table, attributes: Mapping[str, str]) -> pa.Table:
    """Return one row for each user with the first value that the user gave for each attribute.

    Args:
        rows: rows with a `user_id`.
        attributes: the new name of each column to take; columns that are not there are left out.
    """
    existing = {old: new for old, new in attributes.items() if old in rows.column_names}
    table = pa.table({"user_id": rows.column("user_id")} | {new: rows.column(old) for old, new in existing.items()})
    table = table.filter(table.column("user_id").is_valid())
    firsts = table.group_by("user_id", use_threads=False).aggregate([(name, "first") for name in existing.values()])
    return firsts.rename_columns([name.removesuffix("_first") for name in firsts.column_names])
