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

__all__ = ["read_lfm2b"]


def read_lfm2b(folder: Path) -> RawTables:
    """Tracks with the number of plays as rating (or plays with their time), and country, age and gender."""
    path = find_file(folder, "listening-counts.tsv*") or require_file(folder, "listening-events.tsv*")
    plays = read_delimited(path, delimiter="\t", skip_ragged=True)
    taken = {
        "user_id": require_column(plays, USER_NAMES, path),
        "item_id": require_column(plays, ("track_id", "item_id"), path),
    }
    optional = {"rating": find_column(plays, ("count", "play_count")), "timestamp": find_column(plays, TIME_NAMES)}
    taken |= {name: given for name, given in optional.items() if given is not None}
    interactions = pa.table({name: narrow_column(plays.column(given)) for name, given in taken.items()})
    return RawTables(drop_missing_ids(interactions, path), _read_users(require_file(folder, "users.tsv*")))


def _read_users(path: Path) -> pa.Table:
    users = read_delimited(path, delimiter="\t", skip_ragged=True)
    known = {"user_id": narrow_column(users.column(require_column(users, USER_NAMES, path)))}
    for name in ("country", "age", "gender"):
        known[name] = users.column(require_column(users, (name,), path))
    known["gender"] = pc.if_else(pc.equal(known["gender"], "n"), None, known["gender"])
    return mask_implausible_ages(pa.table(known))
