"""Hidden folder beside the output that holds the state of one job, readable by its owner alone.

A lock in the folder keeps two jobs from writing the same output. The operating system releases it if the process dies,
so a job that was killed can be continued at once.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from recveil.core.errors import DataError, UsageError

__all__ = ["MAP_NAME", "clear_work_folder", "explain_full_disk", "hold_work_folder"]

MAP_NAME, LOCK_NAME = "map.safetensors", "lock"


@contextmanager
def hold_work_folder(folder: Path, out: Path) -> Iterator[Path]:
    """Make the hidden folder of a job and hold its lock.

    The folder is removed at the end. If the block ends with an error it stays where the map has been saved, since the
    job can then be continued; else it is removed with the parent folders that were made for it.

    Args:
        folder: the hidden folder.
        out: file or folder that the job writes, for errors.

    Yields:
        The folder.

    Raises:
        UsageError: another job holds the lock, or the folder is not private to this user.
    """
    made = _make_parents(folder)
    try:
        lock = _lock_folder(folder, out)
    except BaseException:
        _remove_empty(made)
        raise
    try:
        yield folder
    except BaseException:
        if not (folder / MAP_NAME).exists():
            shutil.rmtree(folder, ignore_errors=True)
            _remove_empty(made)
        raise
    else:
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(lock)


def clear_work_folder(folder: Path) -> None:
    """Remove the state of another job from the folder; the lock stays."""
    for path in folder.iterdir():
        if path.name != LOCK_NAME:
            path.unlink()


@contextmanager
def explain_full_disk(path: Path) -> Iterator[None]:
    """Turn the errors of libraries on a full disk within this block into one sentence that names the file."""
    from safetensors import SafetensorError

    try:
        yield
    except (OSError, SafetensorError) as error:
        is_full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
        # Arrow and safetensors give no number; NumPy says how much of an array it could write, and nothing else.
        if is_full or "No space left" in str(error) or "quota exceeded" in str(error) or _is_short_write(error):
            raise DataError(f"There is no room left for {path}. Free some space.") from error
        raise


def _is_short_write(error: Exception) -> bool:
    return isinstance(error, OSError) and error.errno is None and " requested and " in str(error)


def _make_parents(folder: Path) -> list[Path]:
    """Make the missing folders above this one; return those that were made, the innermost first."""
    made = [parent for parent in folder.absolute().parents if not parent.exists()]
    folder.parent.mkdir(parents=True, exist_ok=True)
    return made


def _remove_empty(folders: list[Path]) -> None:
    with suppress(OSError):
        for folder in folders:
            folder.rmdir()


def _lock_folder(folder: Path, out: Path) -> int:
    """Make the folder and lock it; return the handle that holds the lock."""
    while True:
        _make_private(folder)
        try:
            handle = os.open(folder / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except FileNotFoundError:
            continue  # the job that had the folder ended just now
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(handle), os.stat(folder / LOCK_NAME)):
                    return handle
        except BlockingIOError:
            os.close(handle)
            raise UsageError(
                f"Another recveil job is writing {out}. Wait until it has ended, or name another output."
            ) from None
        os.close(handle)  # the lock of a job that ended just now


def _make_private(folder: Path) -> None:
    """Make the folder; one that exists must belong to this user and be closed to all others."""
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        with suppress(FileNotFoundError):
            status = folder.lstat()
            is_own = stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()
            if not is_own or status.st_mode & 0o077:
                raise UsageError(
                    f"{folder} exists already and is not a folder that only you can read. Remove it, or name another "
                    "output."
                ) from None
