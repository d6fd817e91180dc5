"""The worker: one process that reads a table, or runs one job, and writes what came of it into its folder.

`result.json` is written last, so that a job with a result is whole. A worker ends when the service does: the pipe to
its input is then closed.
"""

from __future__ import annotations

import os
import shlex
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from recveil.core.errors import RecveilError
from recveil.core.files import write_atomically
from recveil.core.path_names import shorten_paths
from recveil.core.progress import RowCount, report_progress
from recveil.service.documents import JobProgress, JobRecord, TableRecord
from recveil.service.job_store import ERROR_NAME, PROGRESS_NAME, RECORD_NAME, RESULT_NAME, write_document
from recveil.service.table_inputs import PreparedTable, prepare_table, restore_names
from recveil.service.table_overview import inspect_table

if TYPE_CHECKING:
    from recveil.core.results import AuditResult, CloakResult
    from recveil.workflows.audit_protocol import AuditProtocol
    from recveil.workflows.inputs import InputFiles

__all__ = ["OVERVIEW_NAME", "REPORT_NAME", "CLOAKED_NAME", "main", "run_folders"]

OVERVIEW_NAME, REPORT_NAME, CLOAKED_NAME = "overview.json", "report.html", "cloaked"
SECONDS_BETWEEN_REPORTS = 0.3
NICENESS = 10
"""Jobs yield to the service, which answers in milliseconds."""

T = TypeVar("T")


def main() -> None:
    """Run the worker on the folders named on its command line."""
    threading.Thread(target=_end_with_the_service, daemon=True).start()
    with suppress(OSError):
        os.nice(NICENESS)
    sys.exit(run_folders([Path(argument) for argument in sys.argv[1:]]))


def run_folders(folders: list[Path]) -> int:
    """Inspect the table in one folder, or run the job of the first folder on the table in the second.

    Returns:
        0, or 1 with a sentence in the file of errors.
    """
    try:
        if len(folders) == 1:
            record = TableRecord.model_validate_json((folders[0] / RECORD_NAME).read_bytes())
            overview = inspect_table(folders[0], record.columns)
            problem = None if overview.problem is None else _use_label(overview.problem, folders[0], record)
            overview = overview.model_copy(update={"problem": problem})
            write_document(folders[0] / OVERVIEW_NAME, overview)
        else:
            _run_job(*folders)
    except RecveilError as error:
        (folders[0] / ERROR_NAME).write_text(shorten_paths(str(error)), encoding="utf-8")
        return 1
    except MemoryError:
        (folders[0] / ERROR_NAME).write_text("Not enough memory. Use fewer users or a smaller panel.", encoding="utf-8")
        return 1
    except Exception as error:  # noqa: BLE001 - the last guard: people get a sentence
        sentence = f"Internal error, which is a fault of recveil: {type(error).__name__}: {error}."
        (folders[0] / ERROR_NAME).write_text(shorten_paths(sentence), encoding="utf-8")
        return 1
    return 0


def _run_job(folder: Path, table_folder: Path) -> None:
    job = JobRecord.model_validate_json((folder / RECORD_NAME).read_bytes())
    table = TableRecord.model_validate_json((table_folder / RECORD_NAME).read_bytes())
    try:
        with report_progress(ProgressFile(folder / PROGRESS_NAME).report):
            prepared = prepare_table(table_folder, folder, table.columns)
            run = _audit_table if job.kind == "audit" else _cloak_table
            result = _name_input(run(folder, prepared, job), table.label, job.command)
            ProgressFile(folder / PROGRESS_NAME).write("drawing the report", 0, None)
            result.write_html(folder / REPORT_NAME)
            with write_atomically(folder / RESULT_NAME, private=True) as temporary:
                temporary.write_text(result.to_json(), encoding="utf-8")
    except RecveilError as error:
        raise RecveilError(_use_label(str(error), table_folder, table)) from error
    finally:
        for name in ("users.parquet", "attributes.parquet"):  # copies of personal data
            (folder / name).unlink(missing_ok=True)


def _audit_table(folder: Path, prepared: PreparedTable, job: JobRecord) -> AuditResult:
    from recveil.workflows.audit import AuditOutputs, audit_files

    return audit_files(
        _make_files(prepared), list(job.options.target), _make_protocol(job), outputs=AuditOutputs(printed=True)
    )


def _cloak_table(folder: Path, prepared: PreparedTable, job: JobRecord) -> CloakResult:
    from recveil.workflows.cloak import cloak_files
    from recveil.workflows.cloak_table import CloakRequest
    from recveil.workflows.defended_release import ChosenDefense

    out = folder / f"{CLOAKED_NAME}{prepared.output_suffix}"
    request = CloakRequest(out, audit=True, frontier=job.options.frontier, check=True)
    defense = ChosenDefense(job.options.method, {"strength": job.options.strength})
    result = cloak_files(_make_files(prepared), list(job.options.target), defense, _make_protocol(job), request)
    restore_names(out, prepared.former_names)
    return result


def _make_files(prepared: PreparedTable) -> InputFiles:
    from recveil.workflows.inputs import InputFiles

    ids = Path(prepared.ids) if isinstance(prepared.ids, Path) else None
    files = InputFiles(prepared.embeddings, prepared.attributes, ids)
    return replace(files, ids="row-number") if prepared.ids == "row-number" else files


def _make_protocol(job: JobRecord) -> AuditProtocol:
    from recveil.workflows.audit_protocol import AuditProtocol

    options = job.options
    repeats = options.repeats
    return AuditProtocol(panel=options.panel, repeats=repeats, max_repeats=max(10, repeats), seed=options.seed)


def _name_input(result: AuditResult | CloakResult, label: str, command: str) -> AuditResult | CloakResult:
    """Return the result with the name of the upload and the command that repeats it, in place of our own names."""
    summary = result.input.model_copy(update={"name": label})
    return result.model_copy(update={"input": summary, "command_line": shlex.split(command)})


def _use_label(sentence: str, folder: Path, table: TableRecord) -> str:
    """Return a sentence that speaks of the uploaded files by the names that people gave them."""
    for path in folder.iterdir():
        label = table.label if path.name.startswith("table.") else table.attributes_label
        sentence = sentence.replace(str(path), label) if label else sentence
    return shorten_paths(sentence)


class ProgressFile:
    """Progress of a job in a file that the service reads."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._last = 0.0

    def report(self, items: Iterable[T], label: str, total: int | None) -> Iterator[T]:
        """Yield the items and write how many are done, a few times a second."""
        self.write(label, 0, total)
        done = 0
        for item in items:
            yield item
            done += int(item) if isinstance(item, RowCount) else 1
            if time.monotonic() - self._last > SECONDS_BETWEEN_REPORTS:
                self.write(label, done, total)

    def write(self, label: str, done: int, total: int | None) -> None:
        """Write the step that the job is at."""
        self._last = time.monotonic()
        with suppress(OSError):  # progress is not worth a failure
            write_document(self.path, JobProgress(label=label, done=done, total=total))


def _end_with_the_service() -> None:
    while os.read(sys.stdin.fileno(), 1024):  # no buffered read: it would hold a lock when the process ends
        pass
    os._exit(1)


if __name__ == "__main__":
    main()
