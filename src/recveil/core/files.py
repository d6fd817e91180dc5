"""Write a file whole or not at all: to a temporary name in the same folder, then rename."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import re
import secrets
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from recveil.core.errors import DataError, UsageError

__all__ = [
    "check_output_file",
    "check_output_folder",
    "explain_full_disk",
    "hide_name",
    "make_folder",
    "make_temporary_folder",
    "remove_stale_files",
    "write_atomically",
]

MAX_HIDDEN_NAME_BYTES = 200
"""Longer names are hashed, so that a hidden name beside them is not too long for the file system.

Names that are not UTF-8 are hashed as well, since libraries cannot open them.
"""

TEMPORARY_PREFIX = "recveil-"
MIN_STALE_SECONDS = 60.0
"""A temporary folder that nobody holds may be one that is being made, unless it is older than this."""


def check_output_file(path: str | Path) -> Path:
    """Return the path if a file can be written there; call it before long work, not after.

    Missing parents are made when the file is written. A symbolic link is followed: the file it leads to is written.
    """
    path = Path(path)
    place = _follow_links(path)
    if place.is_dir():
        raise UsageError(f"Cannot write the file {path}: it is a folder. Name a file inside it.")
    if _leads_to_stream(path) or (place.exists() and not stat.S_ISREG(place.stat().st_mode)):
        raise UsageError(f"Cannot write the file {path}: it is a device, a pipe or a socket. Name an ordinary file.")
    _check_ancestors(place)
    return path


def check_output_folder(path: str | Path) -> Path:
    """Return the path if a folder is or can be made there; call it before long work, not after."""
    path = Path(path)
    if path.exists() and not path.is_dir():
        raise UsageError(f"Cannot write into {path}: it is a file. Name a folder.")
    _check_ancestors(path)
    return path


def make_folder(path: str | Path) -> Path:
    """Make the folder and its missing parents; return it."""
    path = check_output_folder(path)
    path.mkdir(parents=True, exist_ok=True)
    return path


def hide_name(name: str) -> str:
    """Return the hidden name that temporary files of this file begin with."""
    encoded = os.fsencode(name)
    is_plain = len(encoded) <= MAX_HIDDEN_NAME_BYTES and not any("\ud800" <= letter <= "\udfff" for letter in name)
    return f".{name}" if is_plain else f".{hashlib.sha256(encoded).hexdigest()[:32]}"


@contextmanager
def write_atomically(path: str | Path, *, private: bool = False) -> Iterator[Path]:
    """Yield a temporary path to write to; it replaces `path` only if the block ends well.

    A private file can be read and written by its owner alone, from its first byte on. Any other file has the
    permissions of the file that it replaces.
    """
    place = _follow_links(check_output_file(path))
    place.parent.mkdir(parents=True, exist_ok=True)
    temporary = place.with_name(f"{hide_name(place.name)}.{secrets.token_hex(4)}{place.suffix}")
    handle = None
    try:
        handle = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600 if private else 0o666)
        with suppress(OSError):  # a file system without locks
            fcntl.flock(handle, fcntl.LOCK_EX)  # tells a file that is being written from one that was left behind
        replaced = place if place.exists() and not private else temporary
        mode = stat.S_IMODE(replaced.stat().st_mode)
        with explain_full_disk(Path(path)):
            yield temporary
        os.chmod(temporary, mode)
        os.replace(temporary, place)
    finally:
        if handle is not None:
            os.close(handle)
        temporary.unlink(missing_ok=True)


@contextmanager
def explain_full_disk(path: Path) -> Iterator[None]:
    """Turn the errors of libraries on a full disk within this block into one sentence that names the file."""
    try:
        yield
    except Exception as error:
        if _is_disk_full(error):
            raise DataError(f"There is no room left for {path}. Free some space.") from error
        if "(os error " in str(error):  # safetensors, whose errors of the system are no OSError
            raise DataError(f"{path} cannot be written ({error}). Check the disk.") from error
        raise


def _is_disk_full(error: Exception) -> bool:
    """Tell whether the disk is full; of libraries only NumPy's and the system's errors are an OSError."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return True
    if not isinstance(error, OSError) and type(error).__name__ != "SafetensorError":
        return False
    # Arrow and safetensors give no number; NumPy says how much of an array it could write, and nothing else.
    is_short_write = isinstance(error, OSError) and error.errno is None and " requested and " in str(error)
    sentences = ("No space left", "quota exceeded", "File too large")
    return is_short_write or any(sentence in str(error) for sentence in sentences)


def remove_stale_files(path: str | Path) -> None:
    """Remove what a killed process left half-written beside this file; files that are being written stay."""
    place = _follow_links(Path(path))
    name = re.compile(rf"{re.escape(hide_name(place.name))}\.[0-9a-z_]{{8}}{re.escape(place.suffix)}")
    with suppress(FileNotFoundError), os.scandir(place.parent) as entries:
        for entry in entries:
            if name.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
                with suppress(OSError), _hold_unused(entry.path):
                    os.unlink(entry.path)


@contextmanager
def make_temporary_folder() -> Iterator[Path]:
    """Yield a folder for temporary files that is removed at the end; remove those of processes that were killed."""
    _remove_stale_folders()
    with tempfile.TemporaryDirectory(prefix=TEMPORARY_PREFIX) as name:
        handle = os.open(name, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield Path(name)
        finally:
            os.close(handle)


def _remove_stale_folders() -> None:
    pattern = re.compile(rf"{TEMPORARY_PREFIX}[0-9a-z_]{{8}}")
    with suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        for entry in entries:
            with suppress(OSError):
                status = entry.stat(follow_symlinks=False)
                is_own = stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()
                if not is_own or not pattern.fullmatch(entry.name) or time.time() - status.st_mtime < MIN_STALE_SECONDS:
                    continue
                with _hold_unused(entry.path):
                    shutil.rmtree(entry.path, ignore_errors=True)


@contextmanager
def _hold_unused(path: str) -> Iterator[None]:
    """Lock a file or folder that no process holds; raise BlockingIOError if one does."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(handle)


def _follow_links(path: Path) -> Path:
    place = Path(os.path.realpath(path))
    if place.is_symlink():
        raise UsageError(f"Cannot write {path}: it is a symbolic link that leads to itself. Name another file.")
    return place


def _leads_to_stream(path: Path) -> bool:
    """Tell whether a path such as /dev/stdout names an open stream, which may be a file that is not to be replaced."""
    place = path.absolute()
    while place.is_symlink():
        if Path(os.path.realpath(place.parent)).is_relative_to("/proc"):
            return True
        place = place.parent / place.readlink()
    return False


def _check_ancestors(path: Path) -> None:
    nearest = next(parent for parent in path.absolute().parents if parent.exists())
    if not nearest.is_dir():
        raise UsageError(f"Cannot write {path}: {nearest} is a file, not a folder. Name another place.")
