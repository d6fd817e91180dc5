"""Description of a public data set: its files, its terms, and how it is read and cleaned."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from recveil.data.cleaning import NO_CLEANING, Cleaning
from recveil.data.io.tables import RawTables, read_raw

__all__ = ["Source"]


@dataclass(frozen=True)
class Source:
    """A public data set.

    Args:
        title: one line that says what it holds.
        read: reads the tables from the folder of the official files.
        markers: file names that show the official layout; empty for sets that are prepared as Parquet tables.
        license: terms of use, in a sentence.
        citation: the publication to cite.
        page: page of the publisher.
        url: address of the official file; None if it has to be downloaded by hand.
        checksum: `md5:` or `sha256:` and the digest that the publisher gives; None if none was found.
        cleaning: cleaning that `load_dataset` applies by default.
        read_prepared: reads prepared Parquet tables that lie in the folder in place of the official files.
    """

    title: str
    read: Callable[[Path], RawTables]
    markers: tuple[str, ...]
    license: str
    citation: str
    page: str
    url: str | None = None
    checksum: str | None = None
    cleaning: Cleaning = NO_CLEANING
    read_prepared: Callable[[Path], RawTables] = read_raw
