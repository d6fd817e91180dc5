"""The worker as a process: its exit codes, its progress, its end with the service."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from recveil.core.progress import report_progress, track_progress
from recveil.service.documents import JobOptions, JobProgress, TableRecord
from recveil.service.job_queue import start_worker
from recveil.service.job_store import JobStore, current_time
from recveil.service.job_worker import ProgressFile, run_folders
from service.tools import make_table


def add_table(store: JobStore) -> TableRecord:
    name, folder = store.make_table_folder()
    (folder / "table.parquet").write_bytes(make_table())
    store.add_table(TableRecord(id=name, label="users.parquet", created=current_time(), n_bytes=1))
    record = store.find_table(name)
    assert record is not None
    return record


def test_a_wrong_option_is_a_sentence_without_our_folders(tmp_path: Path) -> None:
    store = JobStore(tmp_path)
    table = add_table(store)
    job = store.add_job("audit", table, JobOptions(panel="nothing"), "recveil audit")
    folders = [store.job_folder(job.id), store.table_folder(table.id)]
    assert run_folders(folders) == 1
    sentence = (folders[0] / "error.txt").read_text()
    assert "nothing" in sentence
    assert str(tmp_path) not in sentence


def test_a_folder_without_a_record_is_an_error_and_no_traceback(tmp_path: Path) -> None:
    assert run_folders([tmp_path]) == 1
    assert "Internal error" in (tmp_path / "error.txt").read_text()


def test_progress_is_written_as_it_goes(tmp_path: Path) -> None:
    path = tmp_path / "progress.json"
    with report_progress(ProgressFile(path).report):
        for step in track_progress(range(3), "attacking", 3):
            if step == 0:
                assert JobProgress.model_validate_json(path.read_bytes()).total == 3
                time.sleep(0.35)
    assert JobProgress.model_validate_json(path.read_bytes()) == JobProgress(label="attacking", done=1, total=3)


@pytest.mark.thorough
def test_a_worker_ends_when_the_service_does(tmp_path: Path) -> None:
    store = JobStore(tmp_path)
    table = add_table(store)
    job = store.add_job("audit", table, JobOptions(panel="full", repeats=50), "recveil audit")
    process = start_worker([str(store.job_folder(job.id)), str(store.table_folder(table.id))])
    process.stdin.close()  # as the system does with the pipes of a process that dies
    assert process.wait(60) in (1, -signal.SIGKILL)
    assert not (store.job_folder(job.id) / "result.json").exists()
