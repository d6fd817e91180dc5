"""Last.fm-360K and Last.FM-1K (Celma 2010), from the folders of the official archives.

360K: `usersha1-artmbid-artname-plays.tsv` (user, artist's MusicBrainz id, artist's name, plays) and
`usersha1-profile.tsv` (user, gender, age, country, signup), neither with a header.
1K: `userid-timestamp-artid-artname-traid-traname.tsv` (one line for each play) and `userid-profile.tsv`, whose first
line is `#id gender age country registered`. Both as the README files say.

Items are artists, known by their MusicBrainz id or, where there is none, by their name. Names contain quotes, and a
few lines have too many or too few fields; those lines are dropped and their number is logged. Ages outside 5-100
are undisclosed.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from recveil.data.cleaning import Cleaning, mask_implausible_ages
from recveil.data.io.tables import RawTables, drop_missing_ids, require_file
from recveil.data.io.text import read_delimited
from recveil.data.sources.source import Source

__all__ = ["SOURCES", "read_1k", "read_360k"]

LICENSE = "Non-commercial use only, by permission of Last.fm."
CITATION = "Celma. Music Recommendation and Discovery in the Long Tail. Springer, 2010."
_PAGE = "https://zenodo.org/records/6090214"
_PLAY_COLUMNS = ["user_id", "mbid", "name", "plays"]
_PROFILE_COLUMNS = ["user_id", "gender", "age", "country", "signup"]


def read_360k(folder: Path) -> RawTables:
    """Read the top artists of users, and gender, age and country.

    The rating is the number of plays; there are no times.
    """
    path = require_file(folder, "usersha1-artmbid-artname-plays.tsv")
    plays = read_delimited(path, delimiter="\t", names=_PLAY_COLUMNS, types={"plays": pa.float64()}, skip_ragged=True)
    interactions = pa.table(
        {"user_id": plays.column("user_id"), "item_id": _identify_artists(plays), "rating": plays.column("plays")}
    )
    return RawTables(drop_missing_ids(interactions, path), _read_profiles(require_file(folder, "usersha1-profile.tsv")))


def read_1k(folder: Path) -> RawTables:
    """Read all plays with their times, and gender, age and country.

    An artist comes as often as played; cleaning keeps the first play.
    """
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
    # Only the 1K file has a header. It begins with a character that no id begins with.
    users = users.filter(pc.invert(pc.starts_with(users.column("user_id"), "#")))
    return mask_implausible_ages(users)


SOURCES: dict[str, Source] = {
    "lastfm-360k": Source(
        title="Last.fm-360K: top artists of 359,347 users, with gender, age and country",
        read=read_360k,
        markers=("usersha1-artmbid-artname-plays.tsv",),
        license=LICENSE,
        citation=CITATION,
        page=_PAGE,
        url=f"{_PAGE}/files/lastfm-dataset-360K.tar.gz",
        checksum="md5:635e6ed3fc873aa4ba33aba0ebce02b1",
        cleaning=Cleaning(user_core=45, item_core=45),
    ),
    "lastfm-1k": Source(
        title="Last.FM-1K: every play of 992 users, with gender, age and country",
        read=read_1k,
        markers=("userid-timestamp-artid-artname-traid-traname.tsv",),
        license=LICENSE,
        citation=CITATION,
        page=_PAGE,
        url=f"{_PAGE}/files/lastfm-dataset-1K.tar.gz",
        checksum="md5:a79a6808f54f73354789a9fb02cb1e41",
    ),
}
