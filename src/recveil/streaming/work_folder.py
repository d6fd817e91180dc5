"""Hidden folder beside the output that holds the state of one job, readable by its owner alone.

The lock in it (core/outputs.py) keeps two jobs from writing the same output. A job that was killed can be continued.
"""

from __future__ import annotations

from pathlib import Path

from recveil.core.files import explain_full_disk
from recveil.core.outputs import LOCK_NAME, MAP_NAME, hold_work_folder

__all__ = ["MAP_NAME", "clear_work_folder", "explain_full_disk", "hold_work_folder"]


def clear_work_folder(folder: Path) -> None:
    """Remove the state of another job from the folder; the lock stays."""
    for path in folder.iterdir():
        if path.name != LOCK_NAME:
            path.unlink()
