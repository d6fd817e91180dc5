"""Download of public data sets into the cache, from their official addresses or from local files.

A download is checked against the publisher's checksum if one is known. Otherwise the sha256 of the first download is
written to `checksums.json` in the cache, and later downloads must agree with it. A data set appears in the cache only
when all of it is there.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import logging
import os
import shutil
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

from recveil.core.errors import DataError, UsageError, unknown_name
from recveil.core.files import write_atomically
from recveil.core.json_files import parse_json
from recveil.core.outputs import hold_work_folder, locate_hidden_folder
from recveil.core.progress import track_progress
from recveil.data.io import archive
from recveil.data.sources.catalog import SOURCES, cache_folder, has_data
from recveil.data.sources.source import Source

__all__ = ["fetch_dataset"]

log = logging.getLogger(__name__)

OLD_NAME = "old"
_CHUNK_BYTES = 1 << 20
_TIMEOUT_SECONDS = 60


def fetch_dataset(name: str, *, source: str | Path | None = None) -> Path:
    """Bring a named data set into the cache and return its folder.

    Args:
        name: a name of `SOURCES`.
        source: archive, folder or file to take it from. Without it the official file is downloaded, unless the cache
            holds the data set already; remove the folder to download it again.

    Raises:
        UsageError: no data set has this name, or the cache cannot be written.
        DataError: the download fails, or the files are not those of the data set.
    """
    if name not in SOURCES:
        raise unknown_name("data set", name, SOURCES)
    target = cache_folder() / name
    if source is None and has_data(target, name):
        log.info("%s is in %s already; remove that folder to download it again.", name, target)
        return target
    try:
        with hold_work_folder(locate_hidden_folder(target), target) as folder:
            content = folder / "content"
            _remove_remains(folder, target)
            if source is None:
                _unpack_file(_download_file(name, folder), content)
            else:
                _copy_source(Path(source).expanduser(), content, name)
            _check_content(content, name, source)
            _replace_folder(content, target)
    except OSError as error:
        raise UsageError(
            f"Cannot put '{name}' into the cache {target.parent}: {error}. Set RECVEIL_CACHE to another folder."
        ) from error
    return target


def _remove_remains(folder: Path, target: Path) -> None:
    """Undo what a process that was killed had begun: put the former data set back, remove the rest."""
    if (folder / OLD_NAME).exists() and not target.exists():
        os.rename(folder / OLD_NAME, target)
    for name in ("content", OLD_NAME):
        shutil.rmtree(folder / name, ignore_errors=True)


def _copy_source(source: Path, content: Path, name: str) -> None:
    if source.is_dir():
        _check_content(source, name, source)
        for file in (path for path in source.rglob("*") if path.is_file()):
            place = content / file.relative_to(source)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, place)
    elif source.is_file():
        _unpack_file(source, content)
    else:
        raise DataError(f"There is no file or folder {source}. Check the path.")


def _unpack_file(file: Path, content: Path) -> None:
    """Unpack an archive, or copy any other file into a folder of its own."""
    if archive.is_archive(file):
        archive.extract_archive(file, content)
    else:
        content.mkdir()
        shutil.copyfile(file, content / file.name)


def _check_content(content: Path, name: str, source: str | Path | None) -> None:
    if not has_data(content, name):
        expected = " or ".join([*SOURCES[name].markers, "interactions.parquet"])
        raise DataError(
            f"{source or SOURCES[name].url} does not hold {expected}, so it is not '{name}'. Nothing was stored."
        )


def _replace_folder(content: Path, target: Path) -> None:
    if target.exists():
        shutil.move(target, content.parent / OLD_NAME)
    os.rename(content, target)


def _download_file(name: str, folder: Path) -> Path:
    source = SOURCES[name]
    by_hand = f"Download it by hand from {source.page}, and name that file as the source of `recveil data get {name}`."
    if source.url is None:
        raise DataError(f"No address is known for '{name}'. {by_hand}")
    if urlsplit(source.url).scheme not in ("http", "https"):
        raise DataError(f"The address {source.url} of '{name}' is not http or https. {by_hand}")
    file = folder / PurePosixPath(urlsplit(source.url).path).name
    digests = {kind: hashlib.new(kind, usedforsecurity=False) for kind in ("md5", "sha256")}
    with file.open("wb") as out:
        for chunk in _iterate_chunks(source.url, name, by_hand):
            out.write(chunk)
            for digest in digests.values():
                digest.update(chunk)
    _verify_checksum(source, {kind: digest.hexdigest() for kind, digest in digests.items()})
    return file


def _iterate_chunks(url: str, name: str, by_hand: str) -> Iterator[bytes]:
    """Yield the content of an address in chunks; a failure is a `DataError`."""

    def read_chunk() -> bytes:
        try:
            return bytes(answer.read(_CHUNK_BYTES))
        except (OSError, http.client.HTTPException) as error:
            raise DataError(f"{url} broke off ({error}). Try again. {by_hand}") from error

    try:
        # The addresses are constants of this package, http or https. What comes is checked, like any stranger's file.
        answer = urllib.request.urlopen(url, timeout=_TIMEOUT_SECONDS)  # nosec B310
    except urllib.error.HTTPError as error:
        error.close()
        raise DataError(f"{url} answered {error.code} {error.reason}. {by_hand}") from error
    except (OSError, http.client.HTTPException) as error:
        raise DataError(f"{url} could not be reached ({error}). {by_hand}") from error
    with answer:
        length = answer.headers.get("Content-Length") or ""
        expected = int(length) if length.isdigit() else None
        received = 0
        for chunk in track_progress(
            iter(read_chunk, b""), f"downloading {name}", expected and -(-expected // _CHUNK_BYTES)
        ):
            received += len(chunk)
            yield chunk
    if expected is not None and received != expected:
        raise DataError(f"{url} broke off after {received} of {expected} bytes. Try again. {by_hand}")


def _verify_checksum(source: Source, digests: dict[str, str]) -> None:
    """Compare the download with the known checksum.

    Without one, compare it with the checksum pinned at the first download.
    """
    url = str(source.url)
    pins_file = cache_folder() / "checksums.json"
    pins = _read_pins(pins_file)
    expected = source.checksum or pins.get(url)
    if expected is None:
        with write_atomically(pins_file) as temporary:
            temporary.write_text(
                json.dumps({**pins, url: f"sha256:{digests['sha256']}"}, indent=2, sort_keys=True) + "\n"
            )
        log.warning(
            "No checksum is known for %s; its sha256 %s is now pinned in %s.", url, digests["sha256"], pins_file
        )
        return
    kind, _, value = expected.partition(":")
    if digests.get(kind) != value:
        hint = "" if source.checksum else f" If the publisher has changed the file, remove its line from {pins_file}."
        raise DataError(
            f"{url} is not the file it should be: its {kind} is {digests.get(kind)} instead of {value}. "
            f"Nothing was stored; try again.{hint}"
        )


def _read_pins(file: Path) -> dict[str, str]:
    if not file.is_file():
        return {}
    try:
        pins = parse_json(file.read_text())
    except ValueError:
        pins = None
    if not isinstance(pins, dict) or not all(isinstance(pin, str) for pin in pins.values()):
        raise DataError(f"{file} is not a table of checksums. Remove it to pin them again.")
    return pins
