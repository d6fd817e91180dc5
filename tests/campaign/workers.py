"""Worker processes that run cases; one that dies or does not answer is a verdict, and is replaced."""

from __future__ import annotations

import multiprocessing
import resource
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path

from campaign.cases import Verdict, choose_door, needs_process, run_case
from campaign.worker import Ended

NO_ANSWER = -1
"""Exit code of a case whose worker did not answer."""
MAX_WAIT_SECONDS = 600.0
"""Seconds on the clock after which a case counts as a hang; the judge counts processor time."""
MAX_BYTES = 8 << 30
"""Memory of a worker, so that a case that takes all of it ends itself alone."""


@dataclass(frozen=True)
class Place:
    """Where cases run: the seed of the campaign, the folder of valid inputs, and a folder for copies of them."""

    seed: int
    seeds: Path
    work: Path


@dataclass
class Worker:
    """A process that runs one case at a time."""

    process: BaseProcess
    pipe: Connection
    number: int
    start: float

    @property
    def is_overdue(self) -> bool:
        return time.monotonic() - self.start > MAX_WAIT_SECONDS

    def read_verdict(self) -> Verdict:
        """Return the verdict that has come, or one about the worker itself."""
        try:
            if self.pipe.poll():
                verdict: Verdict = self.pipe.recv()
                return verdict
            fault = "hang"
        except (EOFError, ConnectionResetError):
            fault = "the process died"
        ended = Ended(NO_ANSWER, "", "", time.monotonic() - self.start)
        return Verdict(self.number, choose_door(self.number).name, [], ended, [fault])

    def give_case(self, number: int) -> None:
        self.number, self.start = number, time.monotonic()
        self.pipe.send(number)

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self.pipe.close()


def run_numbers(numbers: Iterable[int], place: Place, *, workers: int = 1) -> Iterator[Verdict]:
    """Run cases in worker processes and return their verdicts as they come."""
    waiting, busy = iter(numbers), []
    try:
        for _, number in zip(range(workers), waiting, strict=False):
            busy.append(_start_worker(number, place))
        while busy:
            ready = set(wait([worker.pipe for worker in busy], timeout=5.0))
            for worker in [worker for worker in busy if worker.pipe in ready or worker.is_overdue]:
                verdict = worker.read_verdict()
                yield verdict
                _go_on(worker, busy, waiting, place, has_ended=verdict.ended.exit_code == NO_ANSWER)
    finally:
        for worker in busy:
            worker.end()


def serve_cases(pipe: Connection, place: Place) -> None:
    """Run the cases that come through the pipe, until this process is ended."""
    resource.setrlimit(resource.RLIMIT_DATA, (MAX_BYTES, MAX_BYTES))
    own = Path(tempfile.mkdtemp(dir=place.work))
    tempfile.tempdir = str(own)
    while True:
        number = pipe.recv()
        pipe.send(run_case(number, place.seed, place.seeds, own / "case", as_process=needs_process(number)))


def _go_on(worker: Worker, busy: list[Worker], waiting: Iterator[int], place: Place, *, has_ended: bool) -> None:
    """Give a worker its next case; end it if there is none, and replace it if it died."""
    number = next(waiting, None)
    if number is not None and not has_ended:
        worker.give_case(number)
        return
    worker.end()
    busy.remove(worker)
    if number is not None:
        busy.append(_start_worker(number, place))


def _start_worker(number: int, place: Place) -> Worker:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=serve_cases, args=(theirs, place), daemon=False)
    process.start()
    theirs.close()
    worker = Worker(process, ours, number, time.monotonic())
    worker.give_case(number)
    return worker
