"""Unpacking of zip and tar files from untrusted sources.

No member may leave the folder, be a link or a device. The number of members and their real size are limited. A folder
appears only when all of it is there.
"""

from __future__ import annotations

import lzma
import os
import shutil
import stat
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO

from recveil.core.errors import DataError
from recveil.core.files import make_temporary_folder

__all__ = ["MAX_BYTES", "MAX_MEMBERS", "extract_archive", "is_archive", "open_folder"]

MAX_BYTES = 64 * 2**30
MAX_MEMBERS = 10_000
MAX_EXPANSION = 200
"""Unpacked size, in sizes of the archive."""
MIN_UNPACKED_BYTES = 64 * 2**20
"""Size up to which any archive is unpacked."""
ARCHIVE_SUFFIXES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")
_CHUNK_BYTES = 1 << 20
_DAMAGE_ERRORS = (zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, EOFError, UnicodeDecodeError)
"""Errors of the libraries on damaged archives; the last one on names of members."""


def is_archive(path: str | Path) -> bool:
    """Whether the name ends like that of a zip or tar file."""
    return Path(path).name.lower().endswith(ARCHIVE_SUFFIXES)


def extract_archive(
    archive: str | Path, target: str | Path, *, max_bytes: int = MAX_BYTES, max_members: int = MAX_MEMBERS
) -> Path:
    """Unpack an archive into a new folder, all of it or nothing.

    Args:
        archive: zip or tar file.
        target: folder to make; it must not exist yet.
        max_bytes: limit of the unpacked size.
        max_members: limit of the number of members.

    Raises:
        DataError: the archive is missing, damaged, too large or unsafe, or the target exists.
    """
    archive, target = Path(archive), Path(target)
    if not archive.is_file():
        raise DataError(f"There is no file {archive}. Check the path.")
    if target.exists():
        raise DataError(f"Cannot unpack {archive} to {target}: it exists already. Remove it first.")
    temporary = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}."))
    try:
        _unpack_members(archive, temporary, max_bytes, max_members)
        temporary.chmod(0o755)
        os.rename(temporary, target)
    except _DAMAGE_ERRORS as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise DataError(f"{archive} is damaged or cut short ({reason}). Download it again.") from error
    except (RuntimeError, NotImplementedError, OSError) as error:
        raise DataError(f"{archive} cannot be unpacked: {error}.") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return target


@contextmanager
def open_folder(path: str | Path) -> Iterator[Path]:
    """Yield the folder itself, or an archive's content in a temporary folder."""
    path = Path(path)
    if path.is_dir():
        yield path
        return
    with make_temporary_folder() as folder:
        yield extract_archive(path, folder / "content")


@dataclass(frozen=True)
class _Member:
    """A file or folder in an archive.

    Attributes:
        name: path in the archive.
        size: size that the archive claims.
        open: opens the content; None for a folder.
    """

    name: str
    size: int
    open: Callable[[], IO[bytes]] | None


def _unpack_members(archive: Path, folder: Path, max_bytes: int, max_members: int) -> None:
    max_bytes = min(max_bytes, max(MIN_UNPACKED_BYTES, MAX_EXPANSION * archive.stat().st_size))
    bytes_left = max_bytes
    _check_member_count(archive, max_members)
    with closing(_iterate_members(archive)) as members:
        for number, member in enumerate(members):
            if number >= max_members:
                raise _refuse_count(archive, max_members)
            place = folder / _resolve_member(archive, member.name)
            if member.size > bytes_left:
                raise _refuse_size(archive, max_bytes)
            if member.open is None:
                place.mkdir(parents=True, exist_ok=True)
                continue
            place.parent.mkdir(parents=True, exist_ok=True)
            with place.open("wb") as out, member.open() as content:
                # The size in the header is only a claim, so the bytes are counted.
                while chunk := content.read(_CHUNK_BYTES):
                    bytes_left -= len(chunk)
                    if bytes_left < 0:
                        raise _refuse_size(archive, max_bytes)
                    out.write(chunk)


def _check_member_count(archive: Path, max_members: int) -> None:
    """Refuse a zip of too many members before any is unpacked; a tar has no list of its members."""
    if archive.name.lower().endswith(".zip"):
        with zipfile.ZipFile(archive) as packed:
            if len(packed.infolist()) > max_members:
                raise _refuse_count(archive, max_members)


def _refuse_count(archive: Path, max_members: int) -> DataError:
    return DataError(
        f"{archive} holds more than {max_members} members, so it was not unpacked. Unpack it by hand if you trust it."
    )


def _iterate_members(archive: Path) -> Generator[_Member, None, None]:
    """Yield the members of the archive; links and devices are refused."""
    if archive.name.lower().endswith(".zip"):
        yield from _iterate_zip(archive)
    elif is_archive(archive):
        yield from _iterate_tar(archive)
    else:
        raise DataError(
            f"{archive} is not an archive that can be unpacked. Known endings: {', '.join(ARCHIVE_SUFFIXES)}."
        )


def _iterate_zip(archive: Path) -> Generator[_Member, None, None]:
    with zipfile.ZipFile(archive) as packed:
        for info in packed.infolist():
            if stat.S_IFMT(info.external_attr >> 16) not in (0, stat.S_IFREG, stat.S_IFDIR):
                raise _refuse_member(archive, info.filename, "is a link or device")
            yield _Member(info.filename, info.file_size, None if info.is_dir() else partial(packed.open, info))


def _iterate_tar(archive: Path) -> Generator[_Member, None, None]:
    with tarfile.open(archive) as tar:
        for member in tar:
            if not (member.isfile() or member.isdir()):
                raise _refuse_member(archive, member.name, "is a link or device")
            content = None if member.isdir() else partial(_open_tar_member, tar, member)
            yield _Member(member.name, member.size, content)


def _open_tar_member(tar: tarfile.TarFile, member: tarfile.TarInfo) -> IO[bytes]:
    content = tar.extractfile(member)
    assert content is not None, "only folders and links have no content"
    return content


def _resolve_member(archive: Path, name: str) -> Path:
    parts = PurePosixPath(name.replace("\\", "/")).parts
    if not name or name.startswith(("/", "\\")) or ".." in parts or any(":" in part for part in parts[:1]):
        raise _refuse_member(archive, name, "would be written outside the folder")
    return Path(*parts)


def _refuse_member(archive: Path, name: str, reason: str) -> DataError:
    return DataError(f"{archive} was not unpacked: its member '{name}' {reason}. Get the archive from its publisher.")


def _refuse_size(archive: Path, max_bytes: int) -> DataError:
    return DataError(
        f"{archive} unpacks to more than {max_bytes} bytes, so it was not unpacked. Unpack it by hand if you trust it."
    )
