"""Commands of recveil in processes of their own, as people start them."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from campaign.worker import Ended

START = (sys.executable, "-c", "from recveil.cli.app import main; main()")
MAX_WAIT_SECONDS = 1800.0


def start_process(
    arguments: Sequence[str], folder: Path, *, prepare: Callable[[], None] | None = None
) -> subprocess.Popen[bytes]:
    """Start a command in this folder; `prepare` runs in the new process first, to set limits."""
    surroundings = {"RECVEIL_DATA": str(folder), "RECVEIL_CACHE": str(folder / "cache"), "COLUMNS": "200"}
    return subprocess.Popen(
        [*START, *arguments],
        cwd=folder,
        env={**os.environ, **surroundings},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=prepare,
    )


def run_process(arguments: Sequence[str], folder: Path, *, prepare: Callable[[], None] | None = None) -> Ended:
    """Run a command in a process of its own until it ends."""
    start = _read_child_seconds()
    process = start_process(arguments, folder, prepare=prepare)
    try:
        out, err = process.communicate(timeout=MAX_WAIT_SECONDS)
    except subprocess.TimeoutExpired:  # the exit code of a killed process is judged as a fault
        process.kill()
        out, err = process.communicate()
    texts = [stream.decode("utf-8", "surrogateescape") for stream in (out, err)]
    return Ended(process.returncode, *texts, _read_child_seconds() - start)


def _read_child_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
