"""Catalog of public data sets, and loading by name or path.

`load_dataset` takes a name or a path. A name is looked for in the folder that RECVEIL_DATA names and then in the cache
(RECVEIL_CACHE, else `recveil` in the user's cache folder), as `NAME/`, `NAME.zip` or `NAME/NAME.zip` in the official
layout or as `NAME/interactions.parquet` with `users.parquet`; the official layout is preferred where both are there.
Addresses and checksums were read in public sources; if a data set has no checksum, none was found.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path

from recveil.core.errors import DataError, unknown_name
from recveil.core.types import Dataset
from recveil.data.cleaning import NO_CLEANING, Cleaning, clean_dataset
from recveil.data.io import archive
from recveil.data.io.tables import RawTables, find_file, read_raw
from recveil.data.sources import amazon, kuaisar, lastfm, lfm2b, modcloth, movielens, prepared, renttherunway
from recveil.data.sources.source import Source
from recveil.data.synthetic import make_demo_world

__all__ = [
    "SOURCES",
    "cache_folder",
    "explain_download",
    "find_data",
    "has_data",
    "list_sources",
    "load_dataset",
    "load_dataset_or_demo",
    "locate_files",
]


SOURCES: dict[str, Source] = {
    **movielens.SOURCES,
    **lastfm.SOURCES,
    **lfm2b.SOURCES,
    **kuaisar.SOURCES,
    **modcloth.SOURCES,
    **renttherunway.SOURCES,
    **amazon.SOURCES,
    **prepared.SOURCES,
}
"""Data sets by name."""


def cache_folder() -> Path:
    """Return the folder of fetched data sets; it need not exist yet."""
    folder = os.environ.get("RECVEIL_CACHE")
    if folder:
        return Path(folder).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "recveil"


def list_sources() -> list[dict[str, object]]:
    """List the named data sets, and whether their files are on this machine."""
    return [
        {
            "name": name,
            "title": source.title,
            "available": locate_files(name) is not None,
            "page": source.page,
            "license": source.license,
        }
        for name, source in SOURCES.items()
    ]


def locate_files(name: str) -> Path | None:
    """Locate the folder or archive of a named data set; None if there is none."""
    if not name.strip(".") or Path(name).name != name:
        return None
    roots = [Path(root).expanduser() for root in [os.environ.get("RECVEIL_DATA")] if root] + [cache_folder()]
    places = [root / f"{name}{end}" for root in roots for end in ("", *archive.ARCHIVE_SUFFIXES)]
    return next((place for place in places if has_data(place, name)), None)


def has_data(place: Path, name: str) -> bool:
    """Tell whether this folder holds the files of a data set, or is an archive."""
    if place.is_file():
        return archive.is_archive(place)
    if not place.is_dir():
        return False
    markers = SOURCES[name].markers if name in SOURCES else ()
    tables = find_file(place, *markers, "interactions.parquet", "interactions.csv", "interactions.tsv", "*.inter")
    return tables is not None or _find_archive(place, name) is not None


def explain_download(name: str) -> str:
    """Explain how to bring a named data set to this machine, in one sentence."""
    source = SOURCES[name]
    first = f"Run `recveil data get {name}`" if source.url else f"Download it by hand from {source.page}"
    return (
        f"{first}, put its files into {cache_folder() / name}, or set RECVEIL_DATA to a folder that holds {name}/ or "
        f"{name}.zip."
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
    """Load and clean a data set by its name, or from a file, archive or folder.

    Args:
        name: a name of `SOURCES`, a folder in RECVEIL_DATA, or a path.
        user_core: interactions that a user must have, 0 for any; the default of the data set if None.
        item_core: interactions that an item must have, 0 for any; the default of the data set if None.
        min_rating: rating from which an interaction counts; None counts every one.
        numeric: columns of users to keep as numbers.
        bins: columns of users to cut into classes, with the lower edges of all classes but the first.
        keep: columns of users to make attributes however many values they have.

    Raises:
        DataError: the data set is not on this machine, or its files cannot be used.
        UsageError: no data set has this name.
    """
    known, raw = _read_tables(str(name))
    default = SOURCES[known].cleaning if known in SOURCES else NO_CLEANING
    cleaning = Cleaning(
        user_core=default.user_core if user_core is None else user_core,
        item_core=default.item_core if item_core is None else item_core,
        min_rating=min_rating,
    )
    # The labels of a public data set are those of its publisher: `none` is an occupation of ML-100K.
    keep_label = None if known in SOURCES else ()
    return clean_dataset(raw, known, cleaning, numeric=numeric, bins=bins, keep=keep, keep_label=keep_label)


def find_data(name: str) -> Path | None:
    """Return the file or folder that a data set is read from; None for `demo` and what is not on this machine."""
    path = Path(name)
    return None if name == "demo" else locate_files(name) or (path if path.exists() else None)


def load_dataset_or_demo(name: str, *, seed: int) -> Dataset:
    """Load a data set by name or path; `demo` is the world of this seed."""
    return make_demo_world(seed).dataset if name == "demo" else load_dataset(name)


def _read_tables(text: str) -> tuple[str, RawTables]:
    """Read the tables of a name or path, and tell the name of the data set."""
    place = locate_files(text)
    if place is not None:
        return text, _read_location(place, text)
    path = Path(text)
    if path.is_file() and not archive.is_archive(path):
        return _read_file(path)
    if path.exists():
        name = path.name.split(".")[0] if path.is_file() else path.resolve().name
        return _read_unnamed(path, name)
    if text in SOURCES:
        roots = " and ".join(str(root) for root in (os.environ.get("RECVEIL_DATA"), cache_folder()) if root)
        raise DataError(f"The data set '{text}' is not on this machine (looked in {roots}). {explain_download(text)}")
    if path.name != text or path.suffix:
        raise DataError(f"There is no file or folder {text}. Check the path.")
    raise unknown_name("data set", text, SOURCES)


def _read_location(place: Path, name: str) -> RawTables:
    """Read a named data set from its folder or archive.

    Official files are preferred, then the official archive in the folder, then prepared tables.
    """
    source = SOURCES.get(name)
    with archive.open_folder(place) as folder:
        if source and find_file(folder, *source.markers):
            return source.read(folder)
        inner = _find_archive(folder, name)
        if inner is not None and source and source.markers:
            with archive.open_folder(inner) as unpacked:
                return source.read(unpacked)
        if source is None:
            return read_raw(folder)
        return source.read_prepared(folder) if source.markers else source.read(folder)


def _read_unnamed(path: Path, name: str) -> tuple[str, RawTables]:
    """Read a folder or archive that its name or its files may identify."""
    if name in SOURCES:
        return name, _read_location(path, name)
    with archive.open_folder(path) as folder:
        known = next((each for each, source in SOURCES.items() if find_file(folder, *source.markers)), None)
        return (known, SOURCES[known].read(folder)) if known else (name, read_raw(folder))


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
