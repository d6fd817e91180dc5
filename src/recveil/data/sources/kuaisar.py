"""KuaiSAR (Sun et al. 2023), from a folder with the official files.

`rec_inter.csv` (user_id, item_id, ..., timestamp in milliseconds, click, ...), `src_inter.csv` (user_id, ...,
search_session_timestamp, ..., item_id, click_cnt, item_type) and `user_features.csv` (user_id, search_active_level,
rec_active_level, onehot_feat1, onehot_feat2), as the publisher's page describes them.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from recveil.data.io.tables import USER_NAMES, RawTables, drop_missing_ids, read_table, require_column, require_file
from recveil.data.io.text import read_delimited

__all__ = ["read_kuaisar"]

_RECOMMENDED_TYPES = ("VIDEO", "IMAGE_ATLAS")


def read_kuaisar(folder: Path, *, search: bool = False) -> RawTables:
    """The clicked recommendations with their time in seconds, and the activity levels and encrypted features of users.

    With `search`, clicked search results of the kinds that are also recommended (videos, picture atlases) count too.
    """
    clicks = _read_clicks(require_file(folder, "rec_inter.csv"), time="timestamp", click="click")
    if search:
        found = _read_clicks(
            require_file(folder, "src_inter.csv"), time="search_session_timestamp", click="click_cnt", kind="item_type"
        )
        clicks = pa.concat_tables([clicks, found])
    path = require_file(folder, "user_features.csv")
    users = read_table(path)
    names = ["user_id" if name == require_column(users, USER_NAMES, path) else name for name in users.column_names]
    return RawTables(clicks, users.rename_columns(names))


def _read_clicks(path: Path, *, time: str, click: str, kind: str | None = None) -> pa.Table:
    numbers = {"user_id": pa.int64(), "item_id": pa.int64(), time: pa.float64(), click: pa.float64()}
    shown = read_delimited(path, delimiter=",", only=[*numbers, *([kind] if kind else [])], types=numbers)
    counts = pc.fill_null(pc.greater(shown.column(click), 0), False)
    if kind is not None:
        counts = pc.and_(counts, pc.is_in(shown.column(kind), value_set=pa.array(_RECOMMENDED_TYPES)))
    clicked = shown.filter(counts)
    seconds = pc.divide(clicked.column(time), 1000.0)
    table = pa.table({name: clicked.column(name) for name in ("user_id", "item_id")} | {"timestamp": seconds})
    return drop_missing_ids(table, path)
