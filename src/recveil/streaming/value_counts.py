"""Distinct values of the columns of a large table, and how many rows have them."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from recveil.core.errors import DataError
from recveil.streaming.target_columns import simplify_values

__all__ = ["COUNT_COLUMN", "count_values", "merge_values"]

MAX_DISTINCT_VALUES = 1_000_000
"""Distinct combinations of values."""

COUNT_COLUMN = "rows of this kind"
"""Column that counts rows in a table of distinct values."""


def count_values(rows: pa.RecordBatch | pa.Table, names: Sequence[str]) -> pa.Table:
    """Count the rows of each combination of values in these columns."""
    # Numbers in place of the names, since a column may be called like the aggregate.
    keys = [str(number) for number in range(len(names))]
    plain = pa.table({key: simplify_values(rows.column(name), name) for key, name in zip(keys, names, strict=True)})
    counted = plain.group_by(keys).aggregate([([], "count_all")])
    return counted.select([*keys, "count_all"]).rename_columns([*names, COUNT_COLUMN])


def merge_values(first: pa.Table, second: pa.Table) -> pa.Table:
    """Add up two tables of counted values."""
    both = pa.concat_tables([first, second])
    names = [name for name in both.column_names if name != COUNT_COLUMN]
    total = both.group_by(names).aggregate([(COUNT_COLUMN, "sum")])
    if total.num_rows > MAX_DISTINCT_VALUES:
        raise DataError(
            f"{' and '.join(names)} have more than {MAX_DISTINCT_VALUES:,} distinct values. Name columns that hold "
            "classes, or round the numbers first."
        )
    return total.select([*names, f"{COUNT_COLUMN}_sum"]).rename_columns([*names, COUNT_COLUMN])
