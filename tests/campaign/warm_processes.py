"""Commands in processes that are forked from one with all libraries loaded: a kill then meets the work, not imports."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path

PRELOADED = (
    "torch", "sklearn.ensemble", "sklearn.linear_model", "pyarrow.parquet", "pyarrow.csv", "safetensors.numpy",
    "recveil.cli.app", "recveil.workflows.audit", "recveil.workflows.cloak", "recveil.workflows.train",
    "recveil.workflows.membership", "recveil.studies.runs",
)  # fmt: skip
ERRORS = ".errors-of-the-campaign"
"""File beside the folder of a case that takes what a command prints on stderr."""


@dataclass
class WarmProcess:
    """A command that is running, or has ended."""

    process: BaseProcess
    errors: Path
    start: float

    @property
    def exit_code(self) -> int:
        assert self.process.exitcode is not None, "the process has ended"
        return self.process.exitcode

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.start

    def wait(self, timeout: float) -> bool:
        """Wait for the end; tell whether it has come."""
        self.process.join(timeout)
        return self.process.exitcode is not None

    def send_signal(self, number: signal.Signals) -> None:
        assert self.process.pid is not None, "the process was started"
        os.kill(self.process.pid, number)

    def read_errors(self) -> str:
        return self.errors.read_text(errors="replace")


def start_warm_process(arguments: Sequence[str], folder: Path) -> WarmProcess:
    """Start a command of recveil in this folder."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(PRELOADED))
    errors = folder.parent / f"{folder.name}{ERRORS}"
    process = context.Process(target=_run_command, args=(list(arguments), folder, errors))
    process.start()
    return WarmProcess(process, errors, time.monotonic())


def _run_command(arguments: list[str], folder: Path, errors: Path) -> None:
    """Run the command as `recveil` does, with its own streams; the process ends with its exit code."""
    os.chdir(folder)
    os.environ |= {"RECVEIL_DATA": str(folder), "RECVEIL_CACHE": str(folder / "cache"), "COLUMNS": "200"}
    for number, place in ((1, os.devnull), (2, str(errors))):
        handle = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(handle, number)
        os.close(handle)
    sys.argv = ["recveil", *arguments]
    from recveil.cli.app import main

    main()
