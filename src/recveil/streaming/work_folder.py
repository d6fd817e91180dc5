"""Hidden folder beside the output that holds the state of one job, readable by its owner alone.

The lock in it (core/outputs.py) keeps two jobs from writing the same output. A job that was killed can be continued.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from recveil.core.errors import DataError
from recveil.core.outputs import LOCK_NAME, MAP_NAME, hold_work_folder

__all__ = ["MAP_NAME", "clear_work_folder", "explain_full_disk", "hold_work_folder"]


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
