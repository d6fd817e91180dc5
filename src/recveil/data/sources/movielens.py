"""MovieLens 100K and 1M (GroupLens), from the folder of the official archive.

100K: `u.data` (tab: user, item, rating, time) and `u.user` (`|`: id, age, gender, occupation, zip code).
1M: `ratings.dat` (`::`: user, movie, rating, time) and `users.dat` (`::`: id, gender, age band, occupation, zip code).
Both formats are as the README files in the archives describe them. Harper and Konstan, The MovieLens Datasets, 2015.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from recveil.data.cleaning import NO_CLEANING, Cleaning
from recveil.data.io.tables import RawTables, require_file
from recveil.data.io.text import read_delimited
from recveil.data.sources.source import Source

__all__ = ["SOURCES", "read_1m", "read_100k"]

_RATING_TYPES = {"user_id": pa.int64(), "item_id": pa.int64(), "rating": pa.int64(), "timestamp": pa.int64()}


def read_100k(folder: Path) -> RawTables:
    """Read the ratings, and the age in years, gender and occupation of users."""
    users = read_delimited(
        require_file(folder, "u.user"),
        delimiter="|",
        names=["user_id", "age", "gender", "occupation", "zip_code"],
        types={"user_id": pa.int64(), "age": pa.int64()},
        encoding="latin1",
    )
    return RawTables(_read_ratings(require_file(folder, "u.data"), "\t"), users)


def read_1m(folder: Path) -> RawTables:
    """Read the ratings, and the gender, age band and occupation code of users.

    The age is the lower end of the band.
    """
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


def _describe_movielens(
    size: str, read: Callable[[Path], RawTables], marker: str, checksum: str, cleaning: Cleaning
) -> Source:
    return Source(
        title=f"MovieLens {size.upper()}: ratings of movies, with gender, age and occupation",
        read=read,
        markers=(marker,),
        license="Research use with citation; no redistribution and no commercial use without permission of GroupLens.",
        citation="Harper and Konstan. The MovieLens Datasets: History and Context. ACM TiiS, 2015.",
        page=f"https://grouplens.org/datasets/movielens/{size}/",
        url=f"https://files.grouplens.org/datasets/movielens/ml-{size}.zip",
        checksum=checksum,
        cleaning=cleaning,
    )


SOURCES: dict[str, Source] = {
    "ml-100k": _describe_movielens("100k", read_100k, "u.data", "md5:0e33842e24a9c977be4e0107933c0723", NO_CLEANING),
    # RAID's cleaning: 6,040 users, 3,416 items, 999,611 interactions.
    "ml-1m": _describe_movielens(
        "1m", read_1m, "ratings.dat", "md5:c4d9eecfca2ab87c1945afe126590906", Cleaning(user_core=5, item_core=5)
    ),
}
