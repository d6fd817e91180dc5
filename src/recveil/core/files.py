"""Write a file whole or not at all: to a temporary name in the same folder, then rename."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from recveil.core.errors import UsageError

__all__ = ["check_folder", "check_parent", "make_folder", "writing"]


def check_parent(path: str | Path) -> Path:
    """The path, if a file can be put there; call it before long work, not after."""
    path = Path(path)
    if path.is_dir():
        raise UsageError(f"Cannot write the file {path}: it is a folder. Name a file inside it.")
    if not path.parent.is_dir():
        raise UsageError(f"Cannot write {path}: the folder {path.parent} does not exist. Create it first.")
    return path


def check_folder(path: str | Path) -> Path:
    """The path, if a folder is or can be made there; call it before long work, not after."""
    path = Path(path)
    if path.exists() and not path.is_dir():
        raise UsageError(f"Cannot write into {path}: it is a file. Name a folder.")
    if not path.absolute().parent.is_dir():
        raise UsageError(f"Cannot make {path}: the folder {path.parent} does not exist. Create it first.")
    return path


def make_folder(path: str | Path) -> Path:
    """The folder, made if need be; the folder it lies in must exist."""
    path = check_folder(path)
    path.mkdir(exist_ok=True)
    return path


@contextmanager
def writing(path: str | Path) -> Iterator[Path]:
    """A temporary path to write to; it takes the place of `path` only if the block ends well."""
    path = check_parent(path)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=path.suffix)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
