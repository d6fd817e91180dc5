"""The queue: killed workers, limits, restarts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from documents import build_target
from recveil.core.errors import RecveilError
from recveil.core.result_parts import InputSummary
from recveil.core.results import AuditResult
from recveil.service.documents import JobOptions, JobRecord, JobState, TableRecord
from recveil.service.job_queue import JobQueue, TooManyJobs, run_worker
from recveil.service.job_store import JobStore, current_time

SLEEP = "import time; time.sleep(60)"
FAIL = "import sys, pathlib; pathlib.Path(sys.argv[1], 'error.txt').write_text('The table is empty.'); sys.exit(1)"
COPY = "import sys, shutil; shutil.copy({result!r}, sys.argv[1] + '/result.json')"


def launch(program: str) -> Callable[[list[str]], subprocess.Popen[bytes]]:
    return lambda arguments: subprocess.Popen([sys.executable, "-S", "-c", program, *arguments], stdin=subprocess.PIPE)


def write_result(path: Path) -> str:
    result = AuditResult(
        input=InputSummary(name="E", n_users=10), targets={"gender": build_target(["F", "M"], {"logistic": 0.7})}
    )
    result.write_json(path)
    return COPY.format(result=str(path))


@pytest.fixture
def store(tmp_path: Path) -> JobStore:
    (tmp_path / "service").mkdir(mode=0o700)
    return JobStore(tmp_path / "service")


@pytest.fixture
def table(store: JobStore) -> TableRecord:
    record = TableRecord(id=store.make_table_folder()[0], label="users.csv", created=current_time(), n_bytes=1)
    store.add_table(record)
    return record


@pytest.fixture
def make_queue(store: JobStore) -> Iterator[Callable[..., JobQueue]]:
    queues: list[JobQueue] = []

    def make(program: str, **options: Any) -> JobQueue:
        queues.append(JobQueue(store, **{"max_jobs": 8, **options}, launch=launch(program)))
        queues[-1].start()
        return queues[-1]

    yield make
    for queue in queues:
        queue.stop()


def wait_for(queue: JobQueue, job: JobRecord, *states: JobState) -> JobRecord:
    end = time.monotonic() + 30
    while time.monotonic() < end:
        record = queue.store.find_job(job.id)
        if record is not None and record.state in states:
            return record
        time.sleep(0.01)
    raise AssertionError("the job does not get there")


def test_a_job_with_a_result_is_done_and_tells_its_findings(
    make_queue: Callable[..., JobQueue], table: TableRecord, tmp_path: Path
) -> None:
    queue = make_queue(write_result(tmp_path / "result.json"))
    job = wait_for(queue, queue.add_job("audit", table, JobOptions()), JobState.DONE, JobState.FAILED)
    assert job.state is JobState.DONE
    assert job.error is None
    assert set(job.findings) == {"gender"}
    assert queue.count_active() == 0


def test_a_killed_worker_fails_its_job_alone(
    make_queue: Callable[..., JobQueue], table: TableRecord, tmp_path: Path
) -> None:
    whole = make_queue(write_result(tmp_path / "result.json"))
    done = wait_for(whole, whole.add_job("audit", table, JobOptions()), JobState.DONE)
    whole.stop()
    queue = make_queue(SLEEP)
    job = queue.add_job("audit", table, JobOptions())
    wait_for(queue, job, JobState.RUNNING)
    while queue._running is None:
        time.sleep(0.01)
    os.kill(queue._running.pid, signal.SIGKILL)
    failed = wait_for(queue, job, JobState.FAILED)
    assert "signal 9" in str(failed.error)
    assert queue.store.find_job(done.id) == done


def test_the_sentence_of_a_worker_is_the_error_of_the_job(
    make_queue: Callable[..., JobQueue], table: TableRecord
) -> None:
    queue = make_queue(FAIL)
    job = wait_for(queue, queue.add_job("cloak", table, JobOptions()), JobState.FAILED)
    assert job.error == "The table is empty."
    assert job.finished is not None


def test_too_many_jobs_are_refused(make_queue: Callable[..., JobQueue], table: TableRecord) -> None:
    queue = make_queue(SLEEP, max_jobs=2)
    first = queue.add_job("audit", table, JobOptions())
    queue.add_job("audit", table, JobOptions())
    with pytest.raises(TooManyJobs, match="2 jobs wait or run"):
        queue.add_job("audit", table, JobOptions())
    wait_for(queue, first, JobState.RUNNING)
    with pytest.raises(TooManyJobs):
        queue.check_room()


def test_a_service_that_starts_again_settles_what_ran_and_runs_what_waited(
    make_queue: Callable[..., JobQueue], store: JobStore, table: TableRecord, tmp_path: Path
) -> None:
    ran, whole, waited = (store.add_job("audit", table, JobOptions(), "") for _ in range(3))
    for job in (ran, whole):
        store.update_job(job.model_copy(update={"state": JobState.RUNNING}))
    program = write_result(tmp_path / "result.json")
    (store.job_folder(whole.id) / "result.json").write_bytes((tmp_path / "result.json").read_bytes())
    queue = make_queue(program)
    assert "service ended" in str(wait_for(queue, ran, JobState.FAILED).error)
    assert wait_for(queue, whole, JobState.DONE).findings
    assert wait_for(queue, waited, JobState.DONE).findings


def test_stopping_ends_the_worker_and_says_so(make_queue: Callable[..., JobQueue], table: TableRecord) -> None:
    queue = make_queue(SLEEP)
    job = queue.add_job("audit", table, JobOptions())
    wait_for(queue, job, JobState.RUNNING)
    while queue._running is None:
        time.sleep(0.01)
    process = queue._running
    queue.stop()
    assert process.wait(5) == -signal.SIGKILL
    assert "service ended" in str(wait_for(queue, job, JobState.FAILED).error)


def test_a_worker_that_takes_too_long_is_killed(tmp_path: Path) -> None:
    with pytest.raises(RecveilError, match="ended after 0.2 seconds"):
        run_worker(launch(SLEEP), [], tmp_path, what="The worker ended", timeout=0.2)
    with pytest.raises(RecveilError, match="exit code 3"):
        run_worker(launch("import sys; sys.exit(3)"), [], tmp_path, what="The worker ended")
