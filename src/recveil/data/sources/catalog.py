"""The data sets that have a name: what they are, where they come from, how they are read and cleaned.

`load` takes a name or a path. A name is looked for in the folder that RECVEIL_DATA names and then in the cache
(RECVEIL_CACHE, else `recveil` in the user's cache folder), as `NAME/`, `NAME.zip` or `NAME/NAME.zip` in the official
layout or as `NAME/interactions.parquet` with `users.parquet`; the official layout is preferred where both are there.
Addresses and checksums are those that could be read in public sources; where no checksum is given, none was found.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from functools import partial
from pathlib import Path

from recveil.core.errors import DataError, unknown_name
from recveil.core.types import Dataset
from recveil.data.cleaning import NO_CLEANING, Cleaning, clean_dataset, mask_implausible_ages
from recveil.data.io import archive
from recveil.data.io.tables import RawTables, find_file, read_raw
from recveil.data.sources import amazon, kuaisar, lastfm, lfm2b, modcloth, movielens
from recveil.data.statistics import describe_dataset
from recveil.data.synthetic import make_demo_world

__all__ = [
    "SOURCES",
    "Source",
    "cache_folder",
    "describe_dataset",
    "has_data",
    "list_sources",
    "load_dataset",
    "load_dataset_or_demo",
    "locate_files",
    "explain_download",
]


@dataclass(frozen=True)
class Source:
    """A named data set: `markers` are files that show the official layout, `read` takes the folder they are in."""

    title: str
    read: Callable[[Path], RawTables]
    markers: tuple[str, ...]
    licence: str
    citation: str
    page: str
    url: str | None = None
    checksum: str | None = None
    cleaning: Cleaning = NO_CLEANING


def _read_book_crossing(folder: Path) -> RawTables:
    """Book-Crossing, with ages outside 5-100 unknown: people typed what they liked."""
    raw = read_raw(folder)
    return raw if raw.users is None else replace(raw, users=mask_implausible_ages(raw.users))


_GROUPLENS = "Research use with citation; no redistribution and no commercial use without permission of GroupLens."
_LASTFM = "Non-commercial use only, by permission of Last.fm."
_MCAULEY = "Research use with citation; no licence is stated."
_MOVIELENS = "Harper and Konstan. The MovieLens Datasets: History and Context. ACM TiiS, 2015."
_CELMA = "Celma. Music Recommendation and Discovery in the Long Tail. Springer, 2010."
_KUAISAR = "Sun et al. KuaiSAR: A Unified Search And Recommendation Dataset. arXiv 2306.07705, 2023."
_AMAZON = "McAuley et al. Image-based Recommendations on Styles and Substitutes. SIGIR, 2015."
_AMAZON_PAGE = "http://jmcauley.ucsd.edu/data/amazon/index_2014.html"
_AMAZON_FILES = "http://snap.stanford.edu/data/amazon/productGraph/categoryFiles"
_CC = "CC BY-NC-SA 4.0: non-commercial use with citation."
_KUAISAR_PAGE = "https://zenodo.org/record/8181109"
_CELMA_PAGE = "https://zenodo.org/records/6090214"


def _describe_movielens(
    size: str, read: Callable[[Path], RawTables], marker: str, checksum: str, cleaning: Cleaning
) -> Source:
    return Source(
        title=f"MovieLens {size.upper()}: ratings of movies, with gender, age and occupation",
        read=read,
        markers=(marker,),
        licence=_GROUPLENS,
        citation=_MOVIELENS,
        page=f"https://grouplens.org/datasets/movielens/{size}/",
        url=f"https://files.grouplens.org/datasets/movielens/ml-{size}.zip",
        checksum=checksum,
        cleaning=cleaning,
    )


def _describe_amazon(category: str) -> Source:
    return Source(
        title=f"Amazon {category.replace('_', ' ')}, ratings of 2014, without attributes",
        read=partial(amazon.read_category, category=category),
        markers=amazon.list_file_patterns(category),
        licence=_MCAULEY,
        citation=_AMAZON,
        page=_AMAZON_PAGE,
        url=f"{_AMAZON_FILES}/ratings_{category}.csv",
    )


def _describe_prepared(
    title: str, licence: str, citation: str, repository: str, read: Callable[[Path], RawTables] = read_raw
) -> Source:
    """A set without a loader of its own: to be put into the folder as interactions.parquet and users.parquet."""
    return Source(title, read, (), licence, citation, page=f"https://github.com/{repository}")


SOURCES: dict[str, Source] = {
    "ml-100k": _describe_movielens(
        "100k", movielens.read_100k, "u.data", "md5:0e33842e24a9c977be4e0107933c0723", NO_CLEANING
    ),
    # RAID's cleaning: 6,040 users, 3,416 items, 999,611 interactions.
    "ml-1m": _describe_movielens(
        "1m",
        movielens.read_1m,
        "ratings.dat",
        "md5:c4d9eecfca2ab87c1945afe126590906",
        Cleaning(user_core=5, item_core=5),
    ),
    "lastfm-360k": Source(
        title="Last.fm-360K: top artists of 359,347 users, with gender, age and country",
        read=lastfm.read_360k,
        markers=("usersha1-artmbid-artname-plays.tsv",),
        licence=_LASTFM,
        citation=_CELMA,
        page=_CELMA_PAGE,
        url=f"{_CELMA_PAGE}/files/lastfm-dataset-360K.tar.gz",
        checksum="md5:635e6ed3fc873aa4ba33aba0ebce02b1",
        cleaning=Cleaning(user_core=45, item_core=45),
    ),
    "lastfm-1k": Source(
        title="Last.FM-1K: every play of 992 users, with gender, age and country",
        read=lastfm.read_1k,
        markers=("userid-timestamp-artid-artname-traid-traname.tsv",),
        licence=_LASTFM,
        citation=_CELMA,
        page=_CELMA_PAGE,
        url=f"{_CELMA_PAGE}/files/lastfm-dataset-1K.tar.gz",
        checksum="md5:a79a6808f54f73354789a9fb02cb1e41",
    ),
    "lfm-2b": Source(
        title="LFM-2b: plays of Last.fm users, with gender, age and country",
        read=lfm2b.read_lfm2b,
        markers=("listening-counts.tsv*", "listening-events.tsv*"),
        licence="Research use; see the publisher's page.",
        citation="Schedl et al. LFM-2b: A Dataset of Enriched Music Listening Events. CHIIR, 2022.",
        page="http://www.cp.jku.at/datasets/LFM-2b/",
    ),
    "kuaisar": Source(
        title="KuaiSAR: clicked short videos, with encrypted features of users",
        read=kuaisar.read_kuaisar,
        markers=("rec_inter.csv",),
        licence=_CC,
        citation=_KUAISAR,
        page=_KUAISAR_PAGE,
        url=f"{_KUAISAR_PAGE}/files/KuaiSAR_v2.zip",
    ),
    "kuaisar-small": Source(
        title="KuaiSAR-small: ten days of clicked short videos, with encrypted features of users",
        read=kuaisar.read_kuaisar,
        markers=("rec_inter.csv",),
        licence=_CC,
        citation=_KUAISAR,
        page=_KUAISAR_PAGE,
        url=f"{_KUAISAR_PAGE}/files/KuaiSAR.zip",
        checksum="md5:daea8cbf605db6bd5841740f0e4a12d9",
    ),
    "modcloth": Source(
        title="ModCloth: ratings of clothes, with the body size of the users",
        read=modcloth.read_modcloth,
        markers=("df_modcloth.csv*", "modcloth_final_data.json*"),
        licence=_MCAULEY,
        citation="Wan et al. Addressing Marketing Bias in Product Recommendations. WSDM, 2020.",
        page="https://github.com/MengtingWan/marketBias",
        url="https://raw.githubusercontent.com/MengtingWan/marketBias/master/data/df_modcloth.csv",
    ),
    "amazon-beauty": _describe_amazon("Beauty"),
    "amazon-digital-music": _describe_amazon("Digital_Music"),
    "lastfm-360k-15k": _describe_prepared(
        "Last.fm artists of 15,000 users, with gender and country", _LASTFM, _CELMA, "andrew-griffen/tidytaddy"
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
        "Released for research with citation; no licence is stated.",
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
        _MCAULEY,
        _AMAZON,
        "salesforce/ICLRec",
    ),
    "amazon-digital-music-cure4rec": _describe_prepared(
        "Amazon Digital Music as filtered for CURE4Rec, without attributes", _MCAULEY, _AMAZON, "xiye7lai/CURE4Rec"
    ),
}


def cache_folder() -> Path:
    """Where fetched data sets are kept; it need not be there yet."""
    given = os.environ.get("RECVEIL_CACHE")
    if given:
        return Path(given).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "recveil"


def list_sources() -> list[dict[str, object]]:
    """The data sets known by name, and whether their files are at hand."""
    return [
        {
            "name": name,
            "title": s.title,
            "at_hand": locate_files(name) is not None,
            "page": s.page,
            "licence": s.licence,
        }
        for name, s in SOURCES.items()
    ]


def locate_files(name: str) -> Path | None:
    """Where the files of a named data set are: a folder or an archive; or nothing."""
    if not name.strip(".") or Path(name).name != name:
        return None
    roots = [Path(given).expanduser() for given in [os.environ.get("RECVEIL_DATA")] if given] + [cache_folder()]
    places = [root / f"{name}{end}" for root in roots for end in ("", *archive.ARCHIVE_SUFFIXES)]
    return next((place for place in places if has_data(place, name)), None)


def has_data(place: Path, name: str) -> bool:
    """Whether the files of a data set are in this folder, or this is an archive."""
    if place.is_file():
        return archive.is_archive(place)
    if not place.is_dir():
        return False
    markers = SOURCES[name].markers if name in SOURCES else ()
    tables = find_file(place, *markers, "interactions.parquet", "interactions.csv", "interactions.tsv", "*.inter")
    return tables is not None or _find_archive(place, name) is not None


def explain_download(name: str) -> str:
    """How to bring the files of a named data set to where they are found."""
    source = SOURCES[name]
    get = f"`recveil data get {name}`"
    first = f"Run {get}" if source.url else f"Get it by hand from {source.page}"
    return (
        f"{first}; or, with the files at hand, `recveil data get {name} --from PATH`; or set RECVEIL_DATA to a folder "
        f"that holds {name}/ or {name}.zip."
    )


def load_dataset(
    name: str | Path,
    *,
    user_core: int | None = None,
    item_core: int | None = None,
    min_rating: float | None = None,
    numeric: Sequence[str] = (),
    bins: Mapping[str, Sequence[float]] | None = None,
    keep: Sequence[str] = (),
) -> Dataset:
    """A clean data set, by its name or from a file, archive or folder.

    Args:
        name: a name of `SOURCES`, a folder in RECVEIL_DATA, or a path.
        user_core: how many interactions a user must have; as the source says where not given, 0 for any.
        item_core: the same for items.
        min_rating: the rating from which an interaction counts; without it every one counts.
        numeric: columns of the users to keep as numbers.
        bins: columns of the users to cut into classes, with the edges.
        keep: columns of the users to make attributes however many values they have.
    """
    known, raw = _read_tables(str(name))
    default = SOURCES[known].cleaning if known in SOURCES else NO_CLEANING
    cleaning = Cleaning(
        user_core=default.user_core if user_core is None else user_core,
        item_core=default.item_core if item_core is None else item_core,
        min_rating=min_rating,
    )
    return clean_dataset(raw, known, cleaning, numeric=numeric, bins=bins, keep=keep)


def load_dataset_or_demo(name: str, *, seed: int) -> Dataset:
    """The data set of this name or path; `demo` is the embedded world."""
    return make_demo_world(seed).dataset if name == "demo" else load_dataset(name)


def _read_tables(given: str) -> tuple[str, RawTables]:
    """What to call the data set, and what was found."""
    place = locate_files(given)
    if place is not None:
        return given, _read_location(place, given)
    path = Path(given)
    if path.is_file() and not archive.is_archive(path):
        return _read_file(path)
    if path.exists():
        name = path.name.split(".")[0] if path.is_file() else path.resolve().name
        return _read_unnamed(path, name)
    if given in SOURCES:
        looked = " and ".join(str(root) for root in (os.environ.get("RECVEIL_DATA"), cache_folder()) if root)
        raise DataError(f"The data set '{given}' is not at hand (looked in {looked}). {explain_download(given)}")
    if path.name != given or path.suffix:
        raise DataError(f"There is no file or folder {given}. Check the path.")
    raise unknown_name("data set", given, SOURCES)


def _read_location(place: Path, name: str) -> RawTables:
    """A named data set from its folder or archive: official files, else the official archive, else tables."""
    source = SOURCES.get(name)
    with archive.open_folder(place) as folder:
        if source and find_file(folder, *source.markers):
            return source.read(folder)
        inner = _find_archive(folder, name)
        if inner is not None and source and source.markers:
            with archive.open_folder(inner) as unpacked:
                return source.read(unpacked)
        return source.read(folder) if source and not source.markers else read_raw(folder)


def _read_unnamed(path: Path, name: str) -> tuple[str, RawTables]:
    """A folder or archive that was given by its path; its name or its files may show which data set it is."""
    if name in SOURCES:
        return name, _read_location(path, name)
    with archive.open_folder(path) as folder:
        found = next((known for known, source in SOURCES.items() if find_file(folder, *source.markers)), None)
        return (found, SOURCES[found].read(folder)) if found else (name, read_raw(folder))


def _read_file(path: Path) -> tuple[str, RawTables]:
    if fnmatch(path.name, "ratings_*.csv*") or fnmatch(path.name, "reviews_*.json*"):
        return path.name.split(".")[0], amazon.read_file(path)
    for name, source in SOURCES.items():
        if any(fnmatch(path.name, marker) for marker in source.markers):
            return name, source.read(path.parent)
    return path.name.split(".")[0], read_raw(path)


def _find_archive(folder: Path, name: str) -> Path | None:
    return next(
        (folder / f"{name}{end}" for end in archive.ARCHIVE_SUFFIXES if (folder / f"{name}{end}").is_file()), None
    )
