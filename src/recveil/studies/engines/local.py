"""Work shared among processes of this machine. The item of a process that dies is begun once more.

for item, answer in run_items(work, items, workers=2): ...
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

__all__ = ["MAX_TRIES", "THREAD_VARIABLES", "Lost", "WorkQueue", "run_items"]

T = TypeVar("T")
R = TypeVar("R")

MAX_TRIES = 2
"""Times that an item is begun before it is given up: what killed a process once may have been chance."""

THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")


@dataclass(frozen=True)
class Lost:
    """The answer to an item whose process died."""

    reason: str


@dataclass
class WorkQueue:
    """Items that are left to do. A worker stays with a group of items while there are any, then begins a new group.

    Items of a group need the same trained model: one process trains it and the others would only wait.
    """

    items: Sequence[Any]
    group: Callable[[Any], str]
    numbers_left: dict[str, list[int]] = field(init=False)
    group_of_worker: dict[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.numbers_left = {}
        for number, item in enumerate(self.items):
            self.numbers_left.setdefault(self.group(item), []).append(number)

    def take_next(self, worker: int) -> int | None:
        """Return the number of the item that this worker does next; None when nothing is left."""
        if not self.numbers_left:
            return None
        busy = Counter(group for other, group in self.group_of_worker.items() if other != worker)
        group = self.group_of_worker.get(worker, "")
        if group not in self.numbers_left:
            group = min(self.numbers_left, key=lambda name: busy[name])
        self.group_of_worker[worker] = group
        number = self.numbers_left[group].pop(0)
        if not self.numbers_left[group]:
            del self.numbers_left[group]
        return number

    def put_back(self, number: int) -> None:
        """Put an item back, before all others."""
        group = self.group(self.items[number])
        others = {name: numbers for name, numbers in self.numbers_left.items() if name != group}
        self.numbers_left = {group: [number, *self.numbers_left.get(group, [])], **others}


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
    may_start: Callable[[], bool] = lambda: True,
) -> Generator[tuple[T, R | Lost], None, None]:
    """Yield each item with its answer as it is finished; however this ends, the processes end with it.

    Args:
        work: a function that can be imported by name, or a `functools.partial` of one.
        items: the items.
        workers: number of processes.
        group: names the group of an item; one worker does a group.
        may_start: no item is started once this returns False.
    """
    if workers < 1:
        raise UsageError(f"workers is {workers}. At least one is needed.")
    queue, tries, crew = WorkQueue(items, group), Counter[int](), dict[int, _Worker]()

    def assign_next(name: int) -> None:
        number = queue.take_next(name) if may_start() else None
        worker = crew[name]
        worker.number = number
        if number is not None:
            tries[number] += 1
            with suppress(ConnectionError):  # a worker that died meanwhile is found when its answer is read
                worker.pipe.send(items[number])

    interrupted, restore_handler = _watch_interrupts()
    try:
        for name in range(min(workers, len(items))):
            crew[name] = _start_worker(work)
            assign_next(name)
        while any(worker.number is not None for worker in crew.values()):
            for name, answer in _wait_for_answers(crew, interrupted):
                number = crew[name].number
                if isinstance(answer, Lost):
                    crew[name] = _start_worker(work)
                    if number is not None and tries[number] < MAX_TRIES:
                        queue.put_back(number)
                        number = None
                assign_next(name)
                if number is not None:
                    yield items[number], answer
    finally:
        restore_handler()
        for worker in crew.values():
            _stop_worker(worker)


def _watch_interrupts() -> tuple[threading.Event, Callable[[], object]]:
    """Return an event that is set on Ctrl-C, and a function that restores the handler of before.

    Python loses the exception where it is raised inside a finalizer; the event stays set.
    """
    interrupted, before = threading.Event(), signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or before is not signal.default_int_handler:
        return interrupted, lambda: None

    def set_event(number: int, frame: Any) -> None:
        interrupted.set()
        signal.default_int_handler(number, frame)

    signal.signal(signal.SIGINT, set_event)
    return interrupted, lambda: signal.signal(signal.SIGINT, before)


def _wait_for_answers(crew: dict[int, _Worker], interrupted: threading.Event) -> Iterator[tuple[int, Any]]:
    """Wait for the next answers, dead workers or Ctrl-C; yield workers with their answers."""
    names: dict[Any, int] = {}
    for name, worker in crew.items():
        if worker.number is not None:
            names[worker.pipe] = names[worker.process.sentinel] = name
    ready: list[Any] = []
    while not ready:
        if interrupted.is_set():
            raise KeyboardInterrupt
        ready = wait(list(names), timeout=1.0)
    for name in {names[handle] for handle in ready}:
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
    """Start a fresh process: forking one that runs threads of its own would be unsafe."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    with _limit_threads():
        process = context.Process(target=_serve_pipe, args=(theirs, work, os.getpid()))
        process.start()
    theirs.close()
    return _Worker(process, ours)


@contextmanager
def _limit_threads() -> Iterator[None]:
    """Let processes that are started in this block compute on one thread: the runtimes read it when loaded."""
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
    """Do the items that come through the pipe until it closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent ends its workers
    threading.Thread(target=_exit_with_parent, args=(parent,), daemon=True).start()
    while True:
        try:
            pipe.send(work(pipe.recv()))
        except (EOFError, ConnectionError):
            return


def _exit_with_parent(parent: int) -> None:
    """Exit when the parent is gone: nobody would read the answers."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)
