"""Write a file whole or not at all: to a temporary name in the same folder, then rename."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from recveil.core.errors import UsageError

__all__ = ["check_output_folder", "check_output_file", "make_folder", "write_atomically"]


def check_output_file(path: str | Path) -> Path:
    """Return the path if a file can be written there; call it before long work, not after.

    Missing parents are made when the file is written.
    """
    path = Path(path)
    if path.is_dir():
        raise UsageError(f"Cannot write the file {path}: it is a folder. Name a file inside it.")
    _check_ancestors(path)
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


def _check_ancestors(path: Path) -> None:
    nearest = next(parent for parent in path.absolute().parents if parent.exists())
    if not nearest.is_dir():
        raise UsageError(f"Cannot write {path}: {nearest} is a file, not a folder. Name another place.")


@contextmanager
def write_atomically(path: str | Path, *, private: bool = False) -> Iterator[Path]:
    """Yield a temporary path to write to; it replaces `path` only if the block ends well.

    A private file can be read and written by its owner alone, from its first byte on.
    """
    path = check_output_file(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=path.suffix)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        os.chmod(temporary, 0o600 if private else 0o666 & ~_read_umask())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _read_umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
