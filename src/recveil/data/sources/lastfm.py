"""Last.fm-360K and Last.FM-1K (Celma 2010), from the folders of the official archives.

360K: `usersha1-artmbid-artname-plays.tsv` (user, artist's MusicBrainz id, artist's name, plays) and
`usersha1-profile.tsv` (user, gender, age, country, signup), neither with a header.
1K: `userid-timestamp-artid-artname-traid-traname.tsv` (one line for each play) and `userid-profile.tsv`, whose first
line is `#id gender age country registered`. Both as the README files say.

Items are artists, known by their MusicBrainz id or, where there is none, by their name. Names contain quotes, and a
few lines have too many or too few fields; those lines are left out and counted. Ages outside 5-100 are unknown.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from recveil.data.cleaning import mask_implausible_ages
from recveil.data.io.tables import RawTables, drop_missing_ids, require_file
from recveil.data.io.text import read_delimited

__all__ = ["read_1k", "read_360k"]

_PLAY_COLUMNS = ["user_id", "mbid", "name", "plays"]
_PROFILE_COLUMNS = ["user_id", "gender", "age", "country", "signup"]


def read_360k(folder: Path) -> RawTables:
    """Top artists with the number of plays as rating (there are no times), and gender, age and country."""
    path = require_file(folder, "usersha1-artmbid-artname-plays.tsv")
    plays = read_delimited(path, delimiter="\t", names=_PLAY_COLUMNS, types={"plays": pa.float64()}, skip_ragged=True)
    interactions = pa.table(
        {"user_id": plays.column("user_id"), "item_id": _identify_artists(plays), "rating": plays.column("plays")}
    )
    return RawTables(drop_missing_ids(interactions, path), _read_profiles(require_file(folder, "usersha1-profile.tsv")))


def read_1k(folder: Path) -> RawTables:
    """Plays with their time, each artist as often as played (cleaning keeps the first), and gender, age and country."""
    path = require_file(folder, "userid-timestamp-artid-artname-traid-traname.tsv")
    plays = read_delimited(
        path,
        delimiter="\t",
        names=["user_id", "timestamp", "mbid", "name", "track_mbid", "track"],
        only=["user_id", "timestamp", "mbid", "name"],
        skip_ragged=True,
    )
    interactions = pa.table(
        {
            "user_id": plays.column("user_id"),
            "item_id": _identify_artists(plays),
            "timestamp": plays.column("timestamp"),
        }
    )
    return RawTables(drop_missing_ids(interactions, path), _read_profiles(require_file(folder, "userid-profile.tsv")))


def _identify_artists(plays: pa.Table) -> pa.ChunkedArray:
    return pc.coalesce(plays.column("mbid"), plays.column("name"))


def _read_profiles(path: Path) -> pa.Table:
    users = read_delimited(path, delimiter="\t", names=_PROFILE_COLUMNS, only=_PROFILE_COLUMNS[:4], skip_ragged=True)
    # Only the 1K file has a header, and it begins with a sign that no id begins with.
    users = users.filter(pc.invert(pc.starts_with(users.column("user_id"), "#")))
    return mask_implausible_ages(users)
