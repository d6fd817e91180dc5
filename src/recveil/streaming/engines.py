"""Engines that run tasks: threads of this process. Reading, multiplying and writing all release the interpreter lock.

An engine merges the results of its tasks in a fixed tree, so the order in which they finish changes nothing: the result
is the same to the last bit on any engine.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field
from queue import Full, Queue
from threading import Event, Thread
from typing import Any, Protocol, TypeVar

from recveil.core.device import use_one_thread
from recveil.core.progress import RowCount, track_progress

__all__ = [
    "TaskEngine",
    "TaskStopped",
    "ThreadEngine",
    "merge_in_tree",
    "raise_if_stopped",
    "read_ahead",
]

S = TypeVar("S")
Task = TypeVar("Task", bound=Any)

_STOP_EVENT: ContextVar[Event | None] = ContextVar("stop_event", default=None)


class TaskStopped(Exception):  # noqa: N818 - nothing is wrong with the task
    """Raised in a task whose result nobody waits for, since another task failed or the user interrupted the run."""


def raise_if_stopped() -> None:
    """Stop the task that this thread runs if nobody waits for it; long tasks call this once in a while."""
    event = _STOP_EVENT.get()
    if event is not None and event.is_set():
        raise TaskStopped


class TaskEngine(Protocol):
    """Runs tasks; a task has `rows`, for progress."""

    @property
    def workers(self) -> int:
        """Threads of this process that run tasks at the same time."""

    def reduce(self, work: Callable[[Task], S], tasks: Sequence[Task], merge: Callable[[S, S], S], label: str) -> S:
        """Run all tasks and merge their results.

        Args:
            work: function that does one task.
            tasks: the tasks.
            merge: function that merges two results; it must be associative.
            label: name of the step, for progress.

        Returns:
            The merged result.
        """

    def run_all(self, work: Callable[[Task], None], tasks: Sequence[Task], label: str) -> None:
        """Run all tasks; a task that was done may be done again."""


@dataclass(frozen=True)
class ThreadEngine:
    """Runs tasks in threads of this process, by default one for each processor."""

    workers: int = field(default_factory=lambda: count_processors())

    def reduce(self, work: Callable[[Task], S], tasks: Sequence[Task], merge: Callable[[S, S], S], label: str) -> S:
        """Run all tasks and merge their results; few results are held at once."""
        return merge_in_tree(self._run_in_order(work, tasks, label), merge)

    def run_all(self, work: Callable[[Task], None], tasks: Sequence[Task], label: str) -> None:
        """Run all tasks."""
        for _ in self._run_in_order(work, tasks, label):
            pass

    def _run_in_order(self, work: Callable[[Task], S], tasks: Sequence[Task], label: str) -> Iterator[S]:
        """Yield the result of each task in the order of the tasks."""
        with use_one_thread(), ThreadPoolExecutor(self.workers) as pool:
            waiting: deque[tuple[Task, Future[S]]] = deque()
            remaining = iter(tasks)
            results: list[S] = []
            stopped = Event()

            def run_task(task: Task) -> S:
                _STOP_EVENT.set(stopped)
                return work(task)

            def finish_tasks() -> Iterator[RowCount]:
                for task in remaining:
                    waiting.append((task, pool.submit(run_task, task)))
                    if len(waiting) > self.workers:
                        break
                while waiting:
                    task, future = waiting.popleft()
                    results.append(future.result())
                    for following in remaining:  # one more for the one that is done
                        waiting.append((following, pool.submit(run_task, following)))
                        break
                    yield RowCount(task.rows)

            try:
                for _ in track_progress(finish_tasks(), label, sum(task.rows for task in tasks)):
                    yield results.pop()
            finally:
                stopped.set()  # tasks that still run end soon, and remove what they have half written
                for _, future in waiting:
                    future.cancel()


def count_processors() -> int:
    """Count the processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def merge_in_tree(states: Iterable[S], merge: Callable[[S, S], S]) -> S:
    """Merge neighbors two by two, level by level.

    The tree depends on the number of states alone.
    """
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


def read_ahead(items: Iterable[S], depth: int = 2) -> Iterator[S]:
    """Yield the same items, made in a thread of their own.

    At most `depth` items are made before they are asked for. Errors are raised where the items are asked for.
    """
    queue: Queue[tuple[bool, Any]] = Queue(depth)
    stopped = Event()

    def put_item(item: tuple[bool, Any]) -> None:
        while not stopped.is_set():
            with suppress(Full):
                queue.put(item, timeout=0.1)
                return

    def make_items() -> None:
        try:
            for item in items:
                put_item((True, item))
                if stopped.is_set():
                    return
            put_item((False, None))
        except BaseException as error:  # noqa: BLE001 - raised where the items are asked for
            put_item((False, error))

    maker = Thread(target=copy_context().run, args=(make_items,), daemon=True)
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
