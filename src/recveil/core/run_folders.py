"""A folder of files that belong together: replaced whole, or left as it was.

The new files are written into a hidden folder first and then moved into place. A mark in the folder says that files are
being moved; a process that is killed meanwhile leaves the mark, and readers refuse the folder.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from recveil.core.errors import DataError, UsageError
from recveil.core.files import check_output_file, check_output_folder
from recveil.core.outputs import hold_work_folder

__all__ = ["check_folder_is_whole", "check_run_folder", "replace_files"]

WORK_NAME, NEW_NAME, MARK_NAME = ".recveil", "new", ".recveil-incomplete"


def check_folder_is_whole(folder: Path) -> None:
    """Refuse to read a folder whose files were being replaced when a process was killed."""
    if (folder / MARK_NAME).exists():
        raise DataError(
            f"{folder} holds files of two runs: the command that replaced them did not end. Run it again, or name "
            "another folder."
        )


def check_run_folder(folder: Path, names: Sequence[str], *, signs: Sequence[str]) -> None:
    """Refuse to write into a folder that holds files of these names that recveil did not write.

    Args:
        folder: the folder; it need not exist.
        names: files that will be written, relative to the folder.
        signs: files among them that every earlier run has left.

    Raises:
        UsageError: the folder is refused.
    """
    check_output_folder(folder)
    present = [name for name in names if os.path.lexists(folder / name)]
    for name in names:
        check_output_file(folder / name)
        for place in [folder / name, *(folder / parent for parent in Path(name).parents if parent != Path())]:
            if place.is_symlink():
                raise UsageError(f"{place} is a symbolic link, which would be replaced. Name another folder.")
    is_earlier_run = (folder / MARK_NAME).exists() or all((folder / name).is_file() for name in signs)
    if present and not is_earlier_run:
        raise UsageError(f"{folder} holds {present[0]}, which this command did not write. Name another folder.")


@contextmanager
def replace_files(folder: Path, names: Sequence[str], *, signs: Sequence[str]) -> Iterator[Path]:
    """Yield a hidden folder to write these files to; they replace those in `folder` if the block ends well.

    Files of these names that were not written are removed, others stay as they are. The lock of the folder is held
    meanwhile.

    Args:
        folder: folder of the files; made if missing.
        names: files that may be written, relative to the folder.
        signs: files among them that every run leaves.

    Raises:
        UsageError: the folder holds files of others, or another process is writing into it.
    """
    check_run_folder(folder, names, signs=signs)
    with hold_work_folder(folder / WORK_NAME, folder) as work:
        new = work / NEW_NAME
        shutil.rmtree(new, ignore_errors=True)  # of a run that was killed
        new.mkdir(mode=0o700)
        yield new
        mark = folder / MARK_NAME
        try:
            mark.touch()
            for name in names:
                _move_file(new / name, folder / name)
            mark.unlink()
        except BaseException as error:
            error.add_note(f"{folder} is incomplete, and is refused until the command has run again.")
            raise


def _move_file(new: Path, place: Path) -> None:
    if new.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        os.replace(new, place)
    else:
        place.unlink(missing_ok=True)
