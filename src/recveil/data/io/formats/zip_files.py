"""Zip files that hold arrays (`.npz`, `.pt`, `.keras`): members read with a limit, and copies with members replaced."""

from __future__ import annotations

import copy
import shutil
import zipfile
from collections.abc import Collection, Mapping
from pathlib import Path

from recveil.core.errors import DataError

__all__ = ["copy_zip", "is_zip", "list_members", "read_member"]

MAX_EXPANSION = 200
"""Unpacked size of a member, in sizes of the file."""
MIN_UNPACKED_BYTES = 64 * 2**20
"""Size up to which any member is unpacked."""


def is_zip(path: Path) -> bool:
    """Tell whether a file begins like a zip file, whatever its ending."""
    with path.open("rb") as file:
        return file.read(2) == b"PK"


def list_members(path: Path) -> list[str]:
    """List the names of the members."""
    with zipfile.ZipFile(path) as packed:
        return packed.namelist()


def read_member(path: Path, name: str, size: int = -1) -> bytes:
    """Read a member, or its first bytes.

    Raises:
        DataError: it unpacks to far more than the size of the file.
    """
    limit = max(MIN_UNPACKED_BYTES, MAX_EXPANSION * path.stat().st_size)
    with zipfile.ZipFile(path) as packed, packed.open(name) as member:
        content = member.read(min(size, limit) if size >= 0 else limit + 1)
    if len(content) > limit:
        raise DataError(
            f"{path} unpacks to more than {MAX_EXPANSION} times its size. Unpack it by hand if you trust it."
        )
    return content


def copy_zip(original: Path, path: Path, replaced: Mapping[str, bytes | Path], dropped: Collection[str] = ()) -> None:
    """Copy a zip file, with the content of some members replaced and others left out.

    Order, compression and dates of the members stay, so that two copies have the same bytes.
    """
    with zipfile.ZipFile(original) as packed, zipfile.ZipFile(path, "w") as out:
        for info in packed.infolist():
            if info.filename in dropped:
                continue
            with out.open(copy.copy(info), "w", force_zip64=info.file_size > 2**31) as target:
                content = replaced.get(info.filename)
                if isinstance(content, bytes):
                    target.write(content)
                    continue
                source = packed.open(info) if content is None else content.open("rb")
                with source:
                    shutil.copyfileobj(source, target, 1 << 20)
