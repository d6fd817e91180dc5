"""A real service whose worker, and which itself, is ended by SIGKILL: finished jobs stay."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest

from service.tools import make_table, upload

pytestmark = pytest.mark.slow
SECONDS = 400
FAST = {"target": "gender", "panel": "logistic", "repeats": "1"}


class Service:
    """`recveil serve` as a process, and a client of it."""

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, "-m", "recveil", "serve", "--port", "0", "--folder", str(folder)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        address = self.process.stdout.readline().split("Serving on ")[1].split()[0]
        self.client = httpx2.Client(base_url=address, timeout=SECONDS)

    def start_job(self, kind: str, table: bytes, **options: str) -> str:
        """Start a job; return its address."""
        answer = self.client.post(f"/{kind}", files=upload(table), data=FAST | options)
        assert answer.status_code < 300, answer.text
        return f"/jobs/{answer.json()['id']}"

    def wait_for(self, job: str, *states: str) -> dict[str, Any]:
        """Wait until a job is in one of these states."""
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            document: dict[str, Any] = self.client.get(job).json()
            if document["state"] in states:
                return document
            time.sleep(0.05)
        raise AssertionError(f"the job is not {states}")

    def find_worker(self) -> int:
        """Wait for the process of the job that runs."""
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            for path in Path("/proc").glob("[0-9]*/stat"):
                with suppress(OSError):  # a process may end meanwhile
                    if int(path.read_text().rsplit(")", 1)[1].split()[1]) == self.process.pid:
                        return int(path.parent.name)
        raise AssertionError("no worker runs")

    def kill(self) -> None:
        """End the service as the system does when memory is short."""
        self.client.close()
        self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds processes under /proc")
def test_kills_of_workers_and_of_the_service_lose_no_finished_job(tmp_path: Path) -> None:
    folder = tmp_path / "jobs"
    service = Service(folder)
    try:
        done = service.start_job("cloak", make_table(), method="gaussian")
        finished = service.wait_for(done, "done", "failed")
        assert finished["state"] == "done", finished
        report, table = (service.client.get(f"{done}/{part}").content for part in ("report", "table"))
        assert b"<svg" in report
        struck = service.start_job("audit", make_table(4_000), repeats="5")
        service.wait_for(struck, "running")
        os.kill(service.find_worker(), signal.SIGKILL)
        assert "signal 9" in service.wait_for(struck, "failed", "done")["error"]
        assert service.client.get(done).json() == finished
        running = service.start_job("audit", make_table(4_000), repeats="5")
        service.wait_for(running, "running")
        service.kill()
        service = Service(folder)
        assert service.client.get(done).json() == finished
        assert [service.client.get(f"{done}/{part}").content for part in ("report", "table")] == [report, table]
        assert "service ended" in service.wait_for(running, "failed", "done")["error"]
    finally:
        service.kill()
