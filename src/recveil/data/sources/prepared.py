"""Data sets without a reader of their own, prepared as `interactions.parquet` and `users.parquet`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from recveil.data.cleaning import mask_implausible_ages
from recveil.data.io.tables import RawTables, read_raw
from recveil.data.sources import amazon, lastfm
from recveil.data.sources.source import Source

__all__ = ["SOURCES"]


def _read_book_crossing(folder: Path) -> RawTables:
    """Read Book-Crossing.

    Ages outside 5-100 are undisclosed, because users typed them freely.
    """
    raw = read_raw(folder)
    return raw if raw.users is None else replace(raw, users=mask_implausible_ages(raw.users))


def _read_in_order(folder: Path) -> RawTables:
    """Read a data set whose publisher lists each user's items in order of time; the row numbers serve as times."""
    raw = read_raw(folder)
    if "timestamp" in raw.interactions.column_names:
        return raw
    times = pa.array(np.arange(raw.interactions.num_rows))
    return replace(raw, interactions=raw.interactions.append_column("timestamp", times))


def _describe_prepared(
    title: str, license: str, citation: str, repository: str, read: Callable[[Path], RawTables] = read_raw
) -> Source:
    return Source(title, read, (), license, citation, page=f"https://github.com/{repository}")


SOURCES: dict[str, Source] = {
    "lastfm-360k-15k": _describe_prepared(
        "Last.fm artists of 15,000 users, with gender and country",
        lastfm.LICENSE,
        lastfm.CITATION,
        "andrew-griffen/tidytaddy",
    ),
    "lastfm-1k-gnnuers": _describe_prepared(
        "Last.FM-1K as cut for GNNUERS: 268 users, with gender and age group; for loaders, too few users for tables",
        lastfm.LICENSE,
        lastfm.CITATION,
        "amirreza-m95/robustCErec",
    ),
    "book-crossing-caserec": _describe_prepared(
        "Book-Crossing as cleaned for CaseRecommender, with age and country",
        "Free for research with citation.",
        "Ziegler et al. Improving Recommendation Lists Through Topic Diversification. WWW, 2005.",
        "caserec/Datasets-for-Recommender-Systems",
        read=_read_book_crossing,
    ),
    "coat": _describe_prepared(
        "Coat Shopping: ratings of coats, with gender, age band, location and interest in fashion",
        "Released for research with citation; no license is stated.",
        "Schnabel et al. Recommendations as Treatments. ICML, 2016.",
        "DongHande/AutoDebias",
    ),
    "deezer-genres-hu-ro": _describe_prepared(
        "Liked genres of Deezer users in Hungary and Romania, with country",
        "Research use with citation.",
        "Rozemberczki et al. GEMSEC: Graph Embedding with Self Clustering. ASONAM, 2019.",
        "benedekrozemberczki/GEMSEC",
    ),
    "amazon-beauty-5core": _describe_prepared(
        "Amazon Beauty of 2014, 5-core, in order but without times or attributes",
        amazon.LICENSE,
        amazon.CITATION,
        "salesforce/ICLRec",
        read=_read_in_order,
    ),
    "amazon-digital-music-cure4rec": _describe_prepared(
        "Amazon Digital Music as filtered for CURE4Rec, without attributes",
        amazon.LICENSE,
        amazon.CITATION,
        "xiye7lai/CURE4Rec",
    ),
}
