"""The store: private files, records that survive, limits."""

from __future__ import annotations

from pathlib import Path

import pytest

from recveil.core.errors import UsageError
from recveil.service import job_store
from recveil.service.documents import JobOptions, JobProgress, JobState, TableRecord
from recveil.service.job_store import PROGRESS_NAME, JobStore, current_time, write_document


def add_table(store: JobStore) -> TableRecord:
    name, _ = store.make_table_folder()
    record = TableRecord(id=name, label="users.csv", created=current_time(), n_bytes=1)
    store.add_table(record)
    return record


def test_another_store_of_the_folder_finds_tables_and_jobs(tmp_path: Path) -> None:
    store = JobStore(tmp_path)
    table = add_table(store)
    job = store.add_job("audit", table, JobOptions(target=["gender"]), "recveil audit")
    again = JobStore(tmp_path)
    assert again.list_tables() == [table]
    assert again.find_job(job.id) == job
    assert {path.stat().st_mode & 0o077 for path in tmp_path.rglob("*")} == {0}


def test_what_has_no_record_is_removed_and_a_damaged_one_too(tmp_path: Path) -> None:
    store = JobStore(tmp_path)
    store.make_table_folder()
    job = store.add_job("audit", add_table(store), JobOptions(), "")
    (store.job_folder(job.id) / "record.json").write_text("{}")
    again = JobStore(tmp_path)
    assert again.list_jobs() == []
    assert len(list((tmp_path / "tables").iterdir())) == 1
    assert list((tmp_path / "jobs").iterdir()) == []


def test_the_oldest_unused_tables_and_finished_jobs_make_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_store, "MAX_TABLES", 2)
    monkeypatch.setattr(job_store, "MAX_FINISHED_JOBS", 1)
    store = JobStore(tmp_path)
    used = add_table(store)
    waiting = store.add_job("audit", used, JobOptions(), "")
    spare, last = add_table(store), add_table(store)
    assert [table.id for table in store.list_tables()] == [last.id, used.id]
    assert store.find_table(spare.id) is None
    done = [store.add_job("audit", last, JobOptions(), "") for _ in range(3)]
    for job in done:
        store.update_job(job.model_copy(update={"state": JobState.DONE}))
    store.add_job("audit", last, JobOptions(), "")
    assert store.find_job(done[0].id) is None
    assert store.find_job(done[2].id) is not None
    assert store.find_job(waiting.id) is not None
    assert store.is_table_in_use(used.id)


def test_two_services_do_not_share_a_folder(tmp_path: Path) -> None:
    with (
        JobStore(tmp_path).hold_lock(),
        pytest.raises(UsageError, match="Another service"),
        JobStore(tmp_path).hold_lock(),
    ):
        pass
    with JobStore(tmp_path).hold_lock():
        pass


def test_progress_is_read_where_there_is_any(tmp_path: Path) -> None:
    store = JobStore(tmp_path)
    job = store.add_job("audit", add_table(store), JobOptions(), "")
    assert store.read_progress(job.id) is None
    write_document(store.job_folder(job.id) / PROGRESS_NAME, JobProgress(label="attacking", done=1, total=3))
    assert store.read_progress(job.id) == JobProgress(label="attacking", done=1, total=3)
    (store.job_folder(job.id) / PROGRESS_NAME).write_text('{"label":')
    assert store.read_progress(job.id) is None
