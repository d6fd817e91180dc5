"""Work shared among processes of this machine. A process that dies loses its item to another, once.

for item, outcome in run(work, items, workers=2): ...
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, TypeVar

from recveil.core.errors import UsageError

__all__ = ["Lost", "WorkQueue", "run_items"]

T = TypeVar("T")
R = TypeVar("R")

MAX_TRIES = 2
"""How often an item is begun before it is given up: what killed a process once may have been chance."""

THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")


@dataclass(frozen=True)
class Lost:
    """What comes back of an item whose process died."""

    reason: str


@dataclass
class WorkQueue:
    """What is left to do. A worker stays with a group of items while there are any, and else begins a new group.

    Items of a group need the same trained model: one process trains it and the others would only wait.
    """

    items: Sequence[Any]
    group: Callable[[Any], str]
    left: dict[str, list[int]] = field(init=False)
    at: dict[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.left = {}
        for number, item in enumerate(self.items):
            self.left.setdefault(self.group(item), []).append(number)

    def take_next(self, worker: int) -> int | None:
        """The number of the item that this worker does now; None when there is nothing left."""
        if not self.left:
            return None
        busy = Counter(group for who, group in self.at.items() if who != worker)
        mine = self.at.get(worker)
        group = mine if mine in self.left else min(self.left, key=lambda name: busy[name])
        assert group is not None
        self.at[worker] = group
        number = self.left[group].pop(0)
        if not self.left[group]:
            del self.left[group]
        return number

    def put_back(self, number: int) -> None:
        """An item is to be done again, before all others."""
        group = self.group(self.items[number])
        self.left = {group: [number, *self.left.get(group, [])], **{g: n for g, n in self.left.items() if g != group}}


@dataclass(eq=False)
class _Worker:
    process: BaseProcess
    pipe: Connection
    number: int | None = None


def run_items(
    work: Callable[[T], R],
    items: Sequence[T],
    *,
    workers: int,
    group: Callable[[T], str] = lambda item: "",
    go_on: Callable[[], bool] = lambda: True,
) -> Generator[tuple[T, R | Lost], None, None]:
    """Each item with what `work` made of it, as they are finished; nothing is begun once `go_on` says no.

    `work` must be importable by name (or a `functools.partial` of such a function). However this ends, the processes
    end with it.
    """
    if workers < 1:
        raise UsageError(f"workers is {workers}. At least one is needed.")
    queue, tries, crew = WorkQueue(items, group), Counter[int](), dict[int, _Worker]()

    def give(name: int) -> None:
        number = queue.take_next(name) if go_on() else None
        worker = crew[name]
        worker.number = number
        if number is not None:
            tries[number] += 1
            with suppress(ConnectionError):  # it died meanwhile, which is seen when its answer is asked for
                worker.pipe.send(items[number])

    asked, undo = _watch_interrupts()
    try:
        for name in range(min(workers, len(items))):
            crew[name] = _start_worker(work)
            give(name)
        while any(worker.number is not None for worker in crew.values()):
            for name, answer in _wait_for_answers(crew, asked):
                number = crew[name].number
                if isinstance(answer, Lost):
                    crew[name] = _start_worker(work)
                    if number is not None and tries[number] < MAX_TRIES:
                        queue.put_back(number)
                        number = None
                give(name)
                if number is not None:
                    yield items[number], answer
    finally:
        undo()
        for worker in crew.values():
            _stop_worker(worker)


def _watch_interrupts() -> tuple[threading.Event, Callable[[], Any]]:
    """Set once Ctrl-C was pressed, and how to stop listening.

    The exception that Python raises for it is lost where it falls into a finalizer; what is written down stays.
    """
    asked, before = threading.Event(), signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or before is not signal.default_int_handler:
        return asked, lambda: None

    def note(number: int, frame: Any) -> None:
        asked.set()
        signal.default_int_handler(number, frame)

    signal.signal(signal.SIGINT, note)
    return asked, lambda: signal.signal(signal.SIGINT, before)


def _wait_for_answers(crew: dict[int, _Worker], asked: threading.Event) -> Iterator[tuple[int, Any]]:
    """Workers that have an answer, and those that are no more; it waits until there is one, or for Ctrl-C."""
    names: dict[Any, int] = {}
    for name, worker in crew.items():
        if worker.number is not None:
            names[worker.pipe] = names[worker.process.sentinel] = name
    found: list[Any] = []
    while not found:
        if asked.is_set():
            raise KeyboardInterrupt
        found = wait(list(names), timeout=1.0)
    for name in {names[one] for one in found}:
        worker = crew[name]
        try:
            yield name, worker.pipe.recv()  # what was sent before a process died is still good
        except (EOFError, ConnectionError):
            worker.process.join()
            yield name, Lost(_describe_exit(worker.process.exitcode))


def _describe_exit(code: int | None) -> str:
    if code is not None and code < 0:
        return f"its process was ended by {signal.Signals(-code).name}, as happens when memory runs out"
    return f"its process ended with exit code {code}"


def _start_worker(work: Callable[[Any], Any]) -> _Worker:
    """A fresh process: forking one that runs threads of its own would be unsafe."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    with _limit_threads():
        process = context.Process(target=_serve_pipe, args=(there, work, os.getpid()))
        process.start()
    there.close()
    return _Worker(process, here)


@contextmanager
def _limit_threads() -> Iterator[None]:
    """Processes started within this block compute on one thread: the runtimes read it when they are loaded."""
    before = {name: os.environ.get(name) for name in THREAD_VARIABLES}
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _stop_worker(worker: _Worker) -> None:
    worker.pipe.close()
    worker.process.kill()
    worker.process.join()


def _serve_pipe(pipe: Connection, work: Callable[[Any], Any], parent: int) -> None:
    """Do what comes through the pipe until it closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; whoever started us ends us
    threading.Thread(target=_exit_with_parent, args=(parent,), daemon=True).start()
    while True:
        try:
            pipe.send(work(pipe.recv()))
        except (EOFError, ConnectionError):
            return


def _exit_with_parent(parent: int) -> None:
    """An orphan would go on computing for nobody."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)
