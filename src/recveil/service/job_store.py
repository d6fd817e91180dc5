"""Tables and jobs on disk, in a private folder; a service that starts again finds them there.

Every name on disk is drawn by the service. A request names a table or a job by its id, which is looked up in memory, so
that no text of a request becomes a part of a path.
"""

from __future__ import annotations

import datetime
import fcntl
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import RLock
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from recveil.core.errors import UsageError
from recveil.core.files import write_atomically
from recveil.service.documents import JobOptions, JobProgress, JobRecord, JobState, TableRecord

__all__ = ["ERROR_NAME", "PROGRESS_NAME", "RECORD_NAME", "RESULT_NAME", "JobStore", "current_time", "write_document"]

RECORD_NAME, PROGRESS_NAME, RESULT_NAME, ERROR_NAME = "record.json", "progress.json", "result.json", "error.txt"
MAX_TABLES, MAX_FINISHED_JOBS = 50, 200
"""Tables and finished jobs that are kept; the oldest ones are removed."""

ACTIVE_STATES = (JobState.QUEUED, JobState.RUNNING)
DocumentT = TypeVar("DocumentT", bound=BaseModel)


class JobStore:
    """The tables and jobs of one service."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = RLock()
        for name in ("tables", "jobs"):
            (folder / name).mkdir(mode=0o700, exist_ok=True)
        self._tables = {record.id: record for record in _read_records(folder / "tables", TableRecord)}
        self._jobs = {record.id: record for record in _read_records(folder / "jobs", JobRecord)}

    @contextmanager
    def hold_lock(self) -> Iterator[None]:
        """Hold the folder; the operating system releases it if the process dies.

        Raises:
            UsageError: another service holds it.
        """
        handle = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield
        except BlockingIOError:
            raise UsageError(f"Another service uses `folder` {self.folder}. Name another folder.") from None
        finally:
            os.close(handle)

    def make_table_folder(self) -> tuple[str, Path]:
        """Return a new id and its folder, to write an upload into."""
        name = secrets.token_hex(16)
        folder = self.folder / "tables" / name
        folder.mkdir(mode=0o700)
        return name, folder

    def add_table(self, record: TableRecord) -> None:
        """Keep a table whose files were written; remove the oldest beyond the limit that no job needs."""
        with self._lock:
            self._tables[record.id] = record
            write_document(self.table_folder(record.id) / RECORD_NAME, record)
            in_use = {job.table for job in self._jobs.values() if job.state in ACTIVE_STATES} | {record.id}
            spare = [table.id for table in self._tables.values() if table.id not in in_use]
            for old in spare[: max(0, len(self._tables) - MAX_TABLES)]:
                self.remove_table(old)

    def find_table(self, name: str) -> TableRecord | None:
        """Return the table of this id, if there is one."""
        return self._tables.get(name)

    def list_tables(self) -> list[TableRecord]:
        """List all tables, the newest first."""
        with self._lock:
            return list(reversed(self._tables.values()))

    def remove_table(self, name: str) -> None:
        """Remove a table and its files."""
        with self._lock:
            shutil.rmtree(self.table_folder(name), ignore_errors=True)
            del self._tables[name]

    def is_table_in_use(self, name: str) -> bool:
        """Whether a job that waits or runs needs the table."""
        with self._lock:
            return any(job.table == name and job.state in ACTIVE_STATES for job in self._jobs.values())

    def table_folder(self, name: str) -> Path:
        """Return the folder of a table that is known."""
        return self.folder / "tables" / self._tables[name].id

    def add_job(self, kind: str, table: TableRecord, options: JobOptions, command: str) -> JobRecord:
        """Add a job that waits."""
        record = JobRecord.model_validate(
            {
                "id": secrets.token_hex(16),
                "kind": kind,
                "table": table.id,
                "label": table.label,
                "state": JobState.QUEUED,
                "created": current_time(),
                "options": options,
                "command": command,
            }
        )
        with self._lock:
            (self.folder / "jobs" / record.id).mkdir(mode=0o700)
            self.update_job(record)
            done = [job.id for job in self._jobs.values() if job.state not in ACTIVE_STATES]
            for old in done[: max(0, len(done) - MAX_FINISHED_JOBS)]:
                self.remove_job(old)
        return record

    def update_job(self, record: JobRecord) -> None:
        """Write the new state of a job."""
        with self._lock:
            self._jobs[record.id] = record
            write_document(self.job_folder(record.id) / RECORD_NAME, record)

    def find_job(self, name: str) -> JobRecord | None:
        """Return the job of this id, if there is one."""
        return self._jobs.get(name)

    def list_jobs(self) -> list[JobRecord]:
        """List all jobs, the newest first."""
        with self._lock:
            return list(reversed(self._jobs.values()))

    def remove_job(self, name: str) -> None:
        """Remove a job and its files."""
        with self._lock:
            shutil.rmtree(self.job_folder(name), ignore_errors=True)
            del self._jobs[name]

    def job_folder(self, name: str) -> Path:
        """Return the folder of a job that is known."""
        return self.folder / "jobs" / self._jobs[name].id

    def read_progress(self, name: str) -> JobProgress | None:
        """Return the step that a job is at, if it has said so."""
        return _read_document(self.job_folder(name) / PROGRESS_NAME, JobProgress)


def current_time() -> str:
    """Return the time in UTC, to the second."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def write_document(path: Path, document: BaseModel) -> None:
    """Write a document that only the owner can read, whole or not at all."""
    with write_atomically(path, private=True) as temporary:
        temporary.write_text(document.model_dump_json(), encoding="utf-8")


def _read_document(path: Path, model: type[DocumentT]) -> DocumentT | None:
    with suppress(OSError, ValidationError):
        return model.model_validate_json(path.read_bytes())
    return None


def _read_records(folder: Path, model: type[DocumentT]) -> list[DocumentT]:
    """Read all records of a folder, the oldest first; remove what a killed process left without a record."""
    records = []
    for place in folder.iterdir():
        record = _read_document(place / RECORD_NAME, model)
        if record is None or vars(record)["id"] != place.name:
            shutil.rmtree(place, ignore_errors=True)
        else:
            records.append(record)
    return sorted(records, key=lambda record: str(vars(record)["created"]))
