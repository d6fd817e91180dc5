"""ModCloth, in both forms in which it is published.

`df_modcloth.csv` of marketBias (Wan et al. 2020): item_id, user_id, rating, timestamp, size, fit, user_attr (the body
size of the user: Small or Large), model_attr, category, brand, year, split. Columns were read in public code.
`modcloth_final_data.json` (Misra et al. 2018), also .gz: one JSON object a line with user_id, item_id, quality (the
rating) and the measurements the user gave; no times. Fields were read in public code.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.json

from recveil.core.errors import DataError
from recveil.data.io.tables import RawTables, drop_missing_ids, find_file, read_table, require_file
from recveil.data.io.text import check_file, describe_read_error, narrow_column
from recveil.data.sources.source import Source

__all__ = ["SOURCES", "read_modcloth"]

_MEASUREMENTS = ("bra size", "cup size", "hips", "bust", "waist", "height", "shoe size", "shoe width")


def read_modcloth(folder: Path) -> RawTables:
    """Read the ratings and the attributes of users.

    A user who gave different values has the first one. The CSV is preferred if both files exist, because it has times.
    """
    path = find_file(folder, "df_modcloth.csv*") or require_file(folder, "modcloth_final_data.json*")
    if ".csv" in path.suffixes:
        rows, attributes = read_table(path), {"user_attr": "user_attr"}
        names = {"user_id": "user_id", "item_id": "item_id", "rating": "rating", "timestamp": "timestamp"}
    else:
        rows, attributes = _read_json(path), {name: name.replace(" ", "_") for name in _MEASUREMENTS}
        names = {"user_id": "user_id", "item_id": "item_id", "quality": "rating"}
    missing = sorted(set(names) - set(rows.column_names))
    if missing:
        raise DataError(f"{path} has no field '{missing[0]}'. Take the official file, unchanged.")
    interactions = pa.table({new: rows.column(old) for old, new in names.items()})
    return RawTables(drop_missing_ids(interactions, path), _take_first_known(rows, attributes))


def _read_json(path: Path) -> pa.Table:
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


def _take_first_known(rows: pa.Table, attributes: dict[str, str]) -> pa.Table:
    existing = {old: new for old, new in attributes.items() if old in rows.column_names}
    table = pa.table({"user_id": rows.column("user_id")} | {new: rows.column(old) for old, new in existing.items()})
    table = table.filter(table.column("user_id").is_valid())
    firsts = table.group_by("user_id", use_threads=False).aggregate([(name, "first") for name in existing.values()])
    return firsts.rename_columns([name.removesuffix("_first") for name in firsts.column_names])


SOURCES: dict[str, Source] = {
    "modcloth": Source(
        title="ModCloth: ratings of clothes, with the body size of the users",
        read=read_modcloth,
        markers=("df_modcloth.csv*", "modcloth_final_data.json*"),
        license="Research use with citation; no license is stated.",
        citation="Wan et al. Addressing Marketing Bias in Product Recommendations. WSDM, 2020.",
        page="https://github.com/MengtingWan/marketBias",
        url="https://raw.githubusercontent.com/MengtingWan/marketBias/master/data/df_modcloth.csv",
    ),
}
