"""Outputs of a command: never an input, never twice the same, and written by one process at a time.

A hidden folder beside each output, readable by its owner alone, holds a lock while the command runs. The operating
system releases it if the process dies, so the output can be written again at once.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from recveil.core.errors import RecveilError, UsageError
from recveil.core.files import check_output_file, hide_name, remove_stale_files

__all__ = [
    "LOCK_NAME",
    "MAP_NAME",
    "check_outputs",
    "explain_report_failure",
    "hold_outputs",
    "hold_work_folder",
    "locate_hidden_folder",
]

MAP_NAME, LOCK_NAME = "map.safetensors", "lock"


def check_outputs(
    outputs: Mapping[str, Path | None], inputs: Iterable[tuple[str, Path | str | None]] = (), *, folder: str = ""
) -> None:
    """Refuse outputs that no file can be written to, that are the same, or that would overwrite an input.

    Symbolic and hard links are resolved. An input that is a folder is protected with the files directly inside it.

    Args:
        outputs: files to write, by the name of the argument; None for those that nobody asked for.
        inputs: files and folders to read, with the name of the argument.
        folder: name of the output that may be a folder.

    Raises:
        UsageError: an output is refused.
    """
    paths = {name: Path(path) for name, path in outputs.items() if path is not None}
    for name, path in paths.items():
        if name != folder or not path.is_dir():
            check_output_file(path)
    _check_distinct(paths)
    for input_name, given in inputs:
        if given is None:
            continue
        read = Path(given)
        for name, path in paths.items():
            is_inside = read.is_dir() and _resolve(path).parent == _resolve(read)
            if is_inside or _is_same(path, read):
                place = f"lies in `{input_name}`" if is_inside else f"is `{input_name}`"
                raise UsageError(f"`{name}` {path} {place}, which is read. Name another place to write to.")


def _check_distinct(paths: Mapping[str, Path]) -> None:
    names = list(paths)
    for number, name in enumerate(names):
        for other in names[:number]:
            first, second = _resolve(paths[other]), _resolve(paths[name])
            if _is_same(first, second):
                raise UsageError(f"`{other}` and `{name}` are the same file, {paths[name]}. Name two files.")
            if first in second.parents or second in first.parents:
                raise UsageError(
                    f"`{other}` {paths[other]} and `{name}` {paths[name]} lie one in the other. Name two places."
                )


def _resolve(path: Path) -> Path:
    return Path(os.path.realpath(path))


def _is_same(first: Path, second: Path) -> bool:
    """Tell whether two paths lead to one file, by symbolic or hard links too."""
    if _resolve(first) == _resolve(second):
        return True
    try:
        return os.path.samefile(first, second)
    except OSError:
        return False


@contextmanager
def explain_report_failure(report: Path, *written: Path | None) -> Iterator[None]:
    """Add to any error within this block that the report is missing and which outputs were written before it."""
    names = [str(path) for path in written if path is not None]
    remains = f" Written before it: {', '.join(names)}." if names else ""
    try:
        yield
    except (Exception, KeyboardInterrupt) as error:
        error.add_note(f"The report {report} was not written.{remains}")
        raise
    except BaseException as error:  # the chart engine ends so if it runs out of memory
        if isinstance(error, SystemExit | GeneratorExit):
            raise
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise RecveilError(f"The report {report} could not be drawn ({reason}).{remains}") from error


def locate_hidden_folder(out: Path) -> Path:
    """Return the place of the hidden folder that belongs to an output file."""
    place = _resolve(out) if out.is_symlink() else out
    return place.with_name(f"{hide_name(place.name)}.recveil")


@contextmanager
def hold_outputs(*paths: Path | None) -> Iterator[None]:
    """Hold the locks of these output files; first remove what a killed process left half-written beside them.

    Raises:
        UsageError: another process is writing one of them.
    """
    with ExitStack() as stack:
        for path in sorted({Path(path) for path in paths if path is not None}):
            stack.enter_context(hold_work_folder(locate_hidden_folder(path), path))
            remove_stale_files(path)
        yield


@contextmanager
def hold_work_folder(folder: Path, out: Path) -> Iterator[Path]:
    """Make the hidden folder of an output and hold its lock.

    The folder is removed at the end. If the block ends with an error it stays where the map has been saved, since the
    job can then be continued; else it is removed with the parent folders that were made for it.

    Args:
        folder: the hidden folder.
        out: file or folder that is written, for errors.

    Yields:
        The folder.

    Raises:
        UsageError: another process holds the lock, or the folder is not private to this user.
    """
    made: list[Path] = []
    lock = None
    try:
        _make_parents(folder, made)
        lock = _lock_folder(folder, out)
        yield folder
    except BaseException:
        if lock is not None and not (folder / MAP_NAME).exists():
            shutil.rmtree(folder, ignore_errors=True)
        _remove_empty(made)
        raise
    else:
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        if lock is not None:
            os.close(lock)


def _make_parents(folder: Path, made: list[Path]) -> None:
    """Make the missing folders above this one, and list those that were made, the innermost first."""
    made += [parent for parent in folder.absolute().parents if not parent.exists()]
    folder.parent.mkdir(parents=True, exist_ok=True)


def _remove_empty(folders: list[Path]) -> None:
    with suppress(OSError):
        for folder in folders:
            folder.rmdir()


def _lock_folder(folder: Path, out: Path) -> int:
    """Make the folder and lock it; return the handle that holds the lock."""
    while True:
        _make_private(folder, out)
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
        except OSError as error:
            if error.errno not in (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP):
                raise
            return handle  # a file system without locks
        os.close(handle)  # the lock of a job that ended just now


def _make_private(folder: Path, out: Path) -> None:
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
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(out)) from None
