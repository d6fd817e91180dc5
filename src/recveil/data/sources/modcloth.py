"""ModCloth, in both forms in which it is published.

`df_modcloth.csv` of marketBias (Wan et al. 2020): item_id, user_id, rating, timestamp, size, fit, user_attr (the body
size of the user: Small or Large), model_attr, category, brand, year, split. Columns were read in public code.
`modcloth_final_data.json` (Misra et al. 2018), also .gz: one JSON object a line with user_id, item_id, quality (the
rating) and the measurements the user gave; no times. Fields were read in public code.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from recveil.core.errors import DataError
from recveil.data.io.json_lines import read_json_lines, take_first_known
from recveil.data.io.tables import RawTables, drop_missing_ids, find_file, read_table, require_file
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
        rows, attributes = read_json_lines(path), {name: name.replace(" ", "_") for name in _MEASUREMENTS}
        names = {"user_id": "user_id", "item_id": "item_id", "quality": "rating"}
    missing = sorted(set(names) - set(rows.column_names))
    if missing:
        raise DataError(f"{path} has no field '{missing[0]}'. Take the official file, unchanged.")
    interactions = pa.table({new: rows.column(old) for old, new in names.items()})
    return RawTables(drop_missing_ids(interactions, path), take_first_known(rows, attributes))


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
