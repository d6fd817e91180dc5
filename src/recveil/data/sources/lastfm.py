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

from recveil.data.cleaning import plausible_ages
from recveil.data.io.tables import Raw, drop_missing_ids, require_file
from recveil.data.io.text import read_delimited

__all__ = ["read_1k", "read_360k"]

_PLAYS = ["user_id", "mbid", "name", "plays"]
_PROFILE = ["user_id", "gender", "age", "country", "signup"]


def read_360k(folder: Path) -> Raw:
    """Top artists with the number of plays as rating (there are no times), and gender, age and country."""
    path = require_file(folder, "usersha1-artmbid-artname-plays.tsv")
    plays = read_delimited(path, delimiter="\t", names=_PLAYS, types={"plays": pa.float64()}, skip_ragged=True)
    interactions = pa.table(
        {"user_id": plays.column("user_id"), "item_id": _artist(plays), "rating": plays.column("plays")}
    )
    return Raw(drop_missing_ids(interactions, path), _profile(require_file(folder, "usersha1-profile.tsv")))


def read_1k(folder: Path) -> Raw:
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
        {"user_id": plays.column("user_id"), "item_id": _artist(plays), "timestamp": plays.column("timestamp")}
    )
    return Raw(drop_missing_ids(interactions, path), _profile(require_file(folder, "userid-profile.tsv")))


def _artist(plays: pa.Table) -> pa.ChunkedArray:
    return pc.coalesce(plays.column("mbid"), plays.column("name"))


def _profile(path: Path) -> pa.Table:
    users = read_delimited(path, delimiter="\t", names=_PROFILE, only=_PROFILE[:4], skip_ragged=True)
    # Only the 1K file has a header, and it begins with a sign that no id begins with.
    users = users.filter(pc.invert(pc.starts_with(users.column("user_id"), "#")))
    return plausible_ages(users)
