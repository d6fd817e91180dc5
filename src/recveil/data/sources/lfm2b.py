"""LFM-2b (Schedl et al. 2022), from a folder with the official files, packed (.bz2) or not.

`listening-counts.tsv` (user_id, track_id, count) or, where only that is there, `listening-events.tsv` (user_id,
track_id, album_id, timestamp); and `users.tsv` (user_id, country, age, gender, creation_time). File names and columns
were read in public code that uses them, not in the publisher's own description; the first lines name the columns, so
another order does no harm. That an age of -1 and the gender `n` mean "not given" is known of its predecessor LFM-1b
and taken over.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from recveil.data.cleaning import mask_implausible_ages
from recveil.data.io.tables import (
    TIME_NAMES,
    USER_NAMES,
    RawTables,
    drop_missing_ids,
    find_column,
    find_file,
    require_column,
    require_file,
)
from recveil.data.io.text import narrow_column, read_delimited
from recveil.data.sources.source import Source

__all__ = ["SOURCES", "read_lfm2b"]


def read_lfm2b(folder: Path) -> RawTables:
    """Read the tracks of users, and country, age and gender.

    The rating is the number of plays; a file of single plays has times instead.
    """
    path = find_file(folder, "listening-counts.tsv*") or require_file(folder, "listening-events.tsv*")
    plays = read_delimited(path, delimiter="\t", skip_ragged=True)
    columns = {
        "user_id": require_column(plays, USER_NAMES, path),
        "item_id": require_column(plays, ("track_id", "item_id"), path),
    }
    optional = {"rating": find_column(plays, ("count", "play_count")), "timestamp": find_column(plays, TIME_NAMES)}
    columns |= {name: original for name, original in optional.items() if original is not None}
    interactions = pa.table({name: narrow_column(plays.column(original)) for name, original in columns.items()})
    return RawTables(drop_missing_ids(interactions, path), _read_users(require_file(folder, "users.tsv*")))


def _read_users(path: Path) -> pa.Table:
    users = read_delimited(path, delimiter="\t", skip_ragged=True)
    known = {"user_id": narrow_column(users.column(require_column(users, USER_NAMES, path)))}
    for name in ("country", "age", "gender"):
        known[name] = users.column(require_column(users, (name,), path))
    known["gender"] = pc.if_else(pc.equal(known["gender"], "n"), None, known["gender"])
    return mask_implausible_ages(pa.table(known))


SOURCES: dict[str, Source] = {
    "lfm-2b": Source(
        title="LFM-2b: plays of Last.fm users, with gender, age and country",
        read=read_lfm2b,
        markers=("listening-counts.tsv*", "listening-events.tsv*"),
        license="Research use; see the publisher's page.",
        citation="Schedl et al. LFM-2b: A Dataset of Enriched Music Listening Events. CHIIR, 2022.",
        page="http://www.cp.jku.at/datasets/LFM-2b/",
    ),
}
