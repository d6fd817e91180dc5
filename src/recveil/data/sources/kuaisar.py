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
from recveil.data.sources.source import Source

__all__ = ["SOURCES", "read_kuaisar"]

_LICENSE = "CC BY-NC-SA 4.0: non-commercial use with citation."
_CITATION = "Sun et al. KuaiSAR: A Unified Search And Recommendation Dataset. arXiv 2306.07705, 2023."
_PAGE = "https://zenodo.org/record/8181109"
_RECOMMENDED_TYPES = ("VIDEO", "IMAGE_ATLAS")


def read_kuaisar(folder: Path, *, search: bool = False) -> RawTables:
    """Read the clicked recommendations and the features of users.

    Times are in seconds. With `search`, clicked search results of the kinds that are also recommended (videos, picture
    atlases) count as well.
    """
    clicks = _read_clicks(require_file(folder, "rec_inter.csv"), time="timestamp", click="click")
    if search:
        searched = _read_clicks(
            require_file(folder, "src_inter.csv"), time="search_session_timestamp", click="click_cnt", kind="item_type"
        )
        clicks = pa.concat_tables([clicks, searched])
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


SOURCES: dict[str, Source] = {
    "kuaisar": Source(
        title="KuaiSAR: clicked short videos, with encrypted features of users",
        read=read_kuaisar,
        markers=("rec_inter.csv",),
        license=_LICENSE,
        citation=_CITATION,
        page=_PAGE,
        url=f"{_PAGE}/files/KuaiSAR_v2.zip",
    ),
    "kuaisar-small": Source(
        title="KuaiSAR-small: ten days of clicked short videos, with encrypted features of users",
        read=read_kuaisar,
        markers=("rec_inter.csv",),
        license=_LICENSE,
        citation=_CITATION,
        page=_PAGE,
        url=f"{_PAGE}/files/KuaiSAR.zip",
        checksum="md5:daea8cbf605db6bd5841740f0e4a12d9",
    ),
}
