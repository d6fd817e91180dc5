"""Jobs one after the other, each in a process of its own: a job that is killed or runs out of memory ends alone."""

from __future__ import annotations

import json
import subprocess  # nosec B404: the worker is this interpreter, run on a folder that the service named
import sys
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Condition, Thread
from typing import Protocol

from recveil.core.errors import RecveilError
from recveil.core.path_names import shorten_paths
from recveil.service.commands import build_command
from recveil.service.documents import JobKind, JobOptions, JobRecord, JobState, TableRecord
from recveil.service.findings import read_findings
from recveil.service.job_store import ERROR_NAME, RESULT_NAME, JobStore, current_time

__all__ = ["INSPECTION_SECONDS", "JobQueue", "Launcher", "TooManyJobs", "WorkerProcess", "run_worker", "start_worker"]

INSPECTION_SECONDS = 120.0
"""Time that a table may take to be read."""

MAX_ERROR_LETTERS = 1_000


class TooManyJobs(RecveilError):
    """As many jobs wait or run as the service takes."""


class WorkerProcess(Protocol):
    """A process that works on a folder."""

    pid: int

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code once it has ended."""

    def kill(self) -> None:
        """End it."""


Launcher = Callable[[list[str]], WorkerProcess]


def start_worker(arguments: list[str]) -> WorkerProcess:
    """Start a worker on these folders; it ends by itself when this process does, since its input is then closed."""
    command = [sys.executable, "-m", "recveil.service.job_worker", *arguments]
    return subprocess.Popen(  # nosec B603
        command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )


def run_worker(
    launch: Launcher, arguments: list[str], folder: Path, *, what: str, timeout: float | None = None
) -> None:
    """Run a worker to its end.

    Args:
        launch: starts it.
        arguments: its arguments.
        folder: folder that it writes an error into.
        what: begin of the sentence for a worker that was killed.
        timeout: seconds after which it is killed.

    Raises:
        RecveilError: it failed, with the sentence that it wrote, or it was killed.
    """
    (folder / ERROR_NAME).unlink(missing_ok=True)
    process = launch(arguments)
    try:
        code = process.wait(timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        raise RecveilError(
            f"{what} after {timeout:g} seconds. Use the command line for a table of this size."
        ) from None
    finally:
        _close_input(process)
    if code != 0:
        raise RecveilError(_read_error(folder) or _describe_end(code, what))


class JobQueue:
    """Runs the jobs of a store on one thread, and keeps their states."""

    def __init__(self, store: JobStore, *, max_jobs: int, launch: Launcher = start_worker) -> None:
        self.store = store
        self.max_jobs = max_jobs
        self.launch = launch
        self._waiting: deque[str] = deque()
        self._changed = Condition()
        self._running: WorkerProcess | None = None
        self._is_busy = False
        self._is_stopped = False
        self._thread = Thread(target=self._run_jobs, name="recveil-jobs", daemon=True)

    def start(self) -> None:
        """Settle the jobs of an earlier service, and begin to work."""
        for record in reversed(self.store.list_jobs()):
            if record.state is JobState.RUNNING:
                self._settle(record, "The service ended while the job ran. Start the job again.")
            elif record.state is JobState.QUEUED:
                self._waiting.append(record.id)
        self._thread.start()

    def stop(self) -> None:
        """End the running worker; its job fails, those that wait run when the service starts again."""
        with self._changed:
            self._is_stopped = True
            self._changed.notify_all()
            if self._running is not None:
                self._running.kill()
        self._thread.join(timeout=10)

    def count_active(self) -> int:
        """Count the jobs that wait or run."""
        with self._changed:
            return len(self._waiting) + self._is_busy

    def check_room(self) -> None:
        """Refuse a job if as many wait or run as the service takes.

        Raises:
            TooManyJobs: there is no room.
        """
        if self.count_active() >= self.max_jobs:
            raise TooManyJobs(f"{self.max_jobs} jobs wait or run. Wait until one is done, and send the request again.")

    def add_job(self, kind: JobKind, table: TableRecord, options: JobOptions) -> JobRecord:
        """Add a job to the store, and let it wait for its turn.

        Raises:
            TooManyJobs: as many wait or run as the service takes.
        """
        with self._changed:
            self.check_room()
            record = self.store.add_job(kind, table, options, build_command(kind, table, options))
            self._waiting.append(record.id)
            self._changed.notify_all()
        return record

    def _run_jobs(self) -> None:
        while (record := self._next_job()) is not None:
            folders = [str(self.store.job_folder(record.id)), str(self.store.table_folder(record.table))]
            what = "The job failed: its worker ended"
            try:
                run_worker(self._launch_running, folders, self.store.job_folder(record.id), what=what)
                sentence = f"{what} without a result. Start the job again."
            except RecveilError as error:
                sentence = str(error)
            except OSError as error:
                sentence = f"The job failed: the system refused its worker ({error.strerror}). Start the job again."
            with self._changed:
                self._running, self._is_busy = None, False
                sentence = "The service ended while the job ran. Start the job again." if self._is_stopped else sentence
            self._settle(record, sentence)

    def _next_job(self) -> JobRecord | None:
        """Wait for a job and return it as running; None at the end of the service."""
        with self._changed:
            while not self._is_stopped:
                while self._waiting and not self._is_stopped:
                    record = self.store.find_job(self._waiting.popleft())
                    if record is not None and self.store.find_table(record.table) is not None:
                        running = record.model_copy(update={"state": JobState.RUNNING})
                        self.store.update_job(running)
                        self._is_busy = True
                        return running
                self._changed.wait()
        return None

    def _launch_running(self, arguments: list[str]) -> WorkerProcess:
        with self._changed:
            if self._is_stopped:
                raise RecveilError("The service ended before the job ran. Start the job again.")
            self._running = self.launch(arguments)
            return self._running

    def _settle(self, record: JobRecord, sentence: str) -> None:
        """Write what became of a job; one with a whole result is done, whatever happened later."""
        update: dict[str, object] = {"state": JobState.FAILED, "error": shorten_paths(sentence)}
        with suppress(OSError, ValueError):
            result = json.loads((self.store.job_folder(record.id) / RESULT_NAME).read_bytes())
            findings, cost = read_findings(result)
            update = {"state": JobState.DONE, "error": None, "findings": findings, "cost": cost}
        self.store.update_job(record.model_copy(update={**update, "finished": current_time()}))


def _read_error(folder: Path) -> str:
    with suppress(OSError):
        return (folder / ERROR_NAME).read_text(encoding="utf-8", errors="replace")[:MAX_ERROR_LETTERS]
    return ""


def _describe_end(code: int, what: str) -> str:
    if code < 0:
        reason = " (out of memory, or ended by somebody)" if code == -9 else ""
        return f"{what} by signal {-code}{reason}. Try it again, with a smaller table or panel if that does not help."
    return f"{what} with exit code {code}. Try it again, or use the command line."


def _close_input(process: WorkerProcess) -> None:
    if isinstance(process, subprocess.Popen) and process.stdin is not None:
        process.stdin.close()
