"""MovieLens 100K and 1M (GroupLens), from the folder of the official archive.

100K: `u.data` (tab: user, item, rating, time) and `u.user` (`|`: id, age, gender, occupation, zip code).
1M: `ratings.dat` (`::`: user, movie, rating, time) and `users.dat` (`::`: id, gender, age band, occupation, zip code).
Both formats are as the README files in the archives describe them. Harper and Konstan, The MovieLens Datasets, 2015.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from recveil.data.io.tables import RawTables, require_file
from recveil.data.io.text import read_delimited

__all__ = ["read_100k", "read_1m"]

_RATING_TYPES = {"user_id": pa.int64(), "item_id": pa.int64(), "rating": pa.int64(), "timestamp": pa.int64()}


def read_100k(folder: Path) -> RawTables:
    """Ratings, and the age in years, gender and occupation of the users."""
    users = read_delimited(
        require_file(folder, "u.user"),
        delimiter="|",
        names=["user_id", "age", "gender", "occupation", "zip_code"],
        types={"user_id": pa.int64(), "age": pa.int64()},
        encoding="latin1",
    )
    return RawTables(_read_ratings(require_file(folder, "u.data"), "\t"), users)


def read_1m(folder: Path) -> RawTables:
    """Ratings, and the gender, age band (its lower end) and occupation code of the users."""
    users = read_delimited(
        require_file(folder, "users.dat"),
        delimiter="::",
        names=["user_id", "gender", "age", "occupation", "zip_code"],
        types={"user_id": pa.int64(), "age": pa.int64(), "occupation": pa.int64()},
        encoding="latin1",
    )
    return RawTables(_read_ratings(require_file(folder, "ratings.dat"), "::"), users)


def _read_ratings(path: Path, delimiter: str) -> pa.Table:
    return read_delimited(path, delimiter=delimiter, names=list(_RATING_TYPES), types=_RATING_TYPES, encoding="latin1")
