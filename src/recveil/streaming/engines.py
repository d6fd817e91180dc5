"""Who does the tasks: threads of this process. Reading, multiplying and writing all leave the interpreter free.

An engine does tasks and merges what they bring in a fixed tree, so that the order in which they end changes nothing:
the same numbers to the last bit, whoever did the work.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from queue import Full, Queue
from threading import Event, Thread
from typing import Any, Protocol, TypeVar

import torch

from recveil.core.progress import RowCount, track_progress

__all__ = ["TaskEngine", "ThreadEngine", "read_ahead", "merge_in_tree", "limit_torch_threads"]

S = TypeVar("S")
Task = TypeVar("Task", bound=Any)


class TaskEngine(Protocol):
    """Does tasks; a task knows how many `rows` it is about."""

    @property
    def workers(self) -> int:
        """ThreadEngine of this process that do tasks at the same time."""

    def reduce(self, work: Callable[[Task], S], tasks: Sequence[Task], merge: Callable[[S, S], S], label: str) -> S:
        """What the tasks bring, merged."""

    def run_all(self, work: Callable[[Task], None], tasks: Sequence[Task], label: str) -> None:
        """Do all tasks; one that was done may be done again."""


@dataclass(frozen=True)
class ThreadEngine:
    """The tasks in threads of this process, as many as there are processors."""

    workers: int = field(default_factory=lambda: count_processors())

    def reduce(self, work: Callable[[Task], S], tasks: Sequence[Task], merge: Callable[[S, S], S], label: str) -> S:
        """What the tasks bring, merged; few of them are held at once."""
        return merge_in_tree(self._run_in_order(work, tasks, label), merge)

    def run_all(self, work: Callable[[Task], None], tasks: Sequence[Task], label: str) -> None:
        """Do all tasks."""
        for _ in self._run_in_order(work, tasks, label):
            pass

    def _run_in_order(self, work: Callable[[Task], S], tasks: Sequence[Task], label: str) -> Iterator[S]:
        """What each task brings, in the order of the tasks."""
        with limit_torch_threads(), ThreadPoolExecutor(self.workers) as pool:
            waiting: deque[tuple[Task, Future[S]]] = deque()
            left = iter(tasks)
            done: list[S] = []

            def finish() -> Iterator[RowCount]:
                for task in left:
                    waiting.append((task, pool.submit(work, task)))
                    if len(waiting) > self.workers:
                        break
                while waiting:
                    task, future = waiting.popleft()
                    done.append(future.result())
                    for following in left:
                        waiting.append((following, pool.submit(work, following)))
                        break
                    yield RowCount(task.rows)

            try:
                for _ in track_progress(finish(), label, sum(task.rows for task in tasks)):
                    yield done.pop()
            finally:
                for _, future in waiting:
                    future.cancel()


def count_processors() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def merge_in_tree(states: Iterable[S], merge: Callable[[S, S], S]) -> S:
    """Neighbors merged two by two, then these, and so on: the tree hangs on their number alone."""
    stack: list[tuple[int, S]] = []
    for state in states:
        stack.append((0, state))
        while len(stack) > 1 and stack[-1][0] == stack[-2][0]:
            (level, left), (_, right) = stack[-2:]
            stack[-2:] = [(level + 1, merge(left, right))]
    total = stack.pop()[1]
    while stack:
        total = merge(stack.pop()[1], total)
    return total


@contextmanager
def limit_torch_threads() -> Iterator[None]:
    """Within this block products are not spread over threads of their own: the tasks already are."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def read_ahead(items: Iterable[S], depth: int = 2) -> Iterator[S]:
    """The same items, made in a thread of their own, at most so many before they are asked for."""
    queue: Queue[tuple[bool, Any]] = Queue(depth)
    stopped = Event()

    def put(item: tuple[bool, Any]) -> None:
        while not stopped.is_set():
            with suppress(Full):
                queue.put(item, timeout=0.1)
                return

    def make() -> None:
        try:
            for item in items:
                put((True, item))
                if stopped.is_set():
                    return
            put((False, None))
        except BaseException as error:  # noqa: BLE001 - it is raised where the items are asked for
            put((False, error))

    maker = Thread(target=make, daemon=True)
    maker.start()
    try:
        while True:
            more, item = queue.get()
            if not more:
                if item is not None:
                    raise item
                return
            yield item
    finally:
        stopped.set()
        maker.join()
