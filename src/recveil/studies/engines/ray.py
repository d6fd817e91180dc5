"""Work shared among the nodes of a Ray cluster: the same function, as Ray tasks. A lost node loses nothing.

for cell, outcome in RayEngine("ray://head:10001", gpus=0.1).run(work, cells, may_start=...): ...
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from recveil.core.errors import MissingExtra, UsageError
from recveil.studies.engines.local import THREAD_VARIABLES, Lost

__all__ = ["RayEngine"]

T = TypeVar("T")
R = TypeVar("R")

MAX_RETRIES = 3
"""Times that Ray begins a task again whose process or node died."""

CONNECT_SECONDS = 10.0
"""Seconds that a cluster has to answer in."""

TASKS_PER_CORE = 4
"""Tasks handed to Ray for each core: none is idle, and stopping does not wait for all items."""


@dataclass(frozen=True)
class RayEngine:
    """A Ray cluster: the one at `address`, or this machine; `gpus` is the share of a GPU that one cell takes."""

    address: str | None = None
    gpus: float = 0.0
    name: str = "ray"

    def run(
        self, work: Callable[[T], R], items: Sequence[T], *, may_start: Callable[[], bool] = lambda: True
    ) -> Generator[tuple[T, R | Lost], None, None]:
        """Yield each item with what `work` returned for it, as they are finished.

        Results come back through Ray and are written where this runs, so nodes need no common disk.

        Args:
            work: the function.
            items: the items.
            may_start: no item is started once this returns False.
        """
        ray = _import_ray()
        connects = not ray.is_initialized()
        if connects:
            self._connect(ray)
        options = {"num_cpus": 1, "num_gpus": self.gpus, "max_retries": MAX_RETRIES, "retry_exceptions": False}
        task = ray.remote(_call_work).options(**options)
        try:
            yield from _yield_finished(ray, partial(task.remote, work), items, may_start)
        finally:
            if connects:
                ray.shutdown()

    def _connect(self, ray: Any) -> None:
        _check_answers(self.address)
        quiet = {"logging_level": "error", "log_to_driver": False}
        threads = {"env_vars": dict.fromkeys(THREAD_VARIABLES, "1")}
        local = {"include_dashboard": False} if self.address is None else {}
        try:
            ray.init(address=self.address or "local", runtime_env=threads, **quiet, **local)
        except (ConnectionError, ValueError) as error:
            raise UsageError(f"No Ray cluster answers at {self.address}: {error}. Check the address.") from error


def _call_work(work: Callable[[T], R], item: T) -> R:
    """Call the work: Ray takes functions alone, and `work` may be a partial one."""
    return work(item)


def _check_answers(address: str | None) -> None:
    """Raise at once where nobody listens: Ray itself would go on asking for minutes."""
    host, colon, port = (address or "").removeprefix("ray://").rpartition(":")
    if colon and port.isdigit():
        try:
            socket.create_connection((host, int(port)), timeout=CONNECT_SECONDS).close()
        except OSError as error:
            raise UsageError(f"No Ray cluster answers at {address} ({error}). Check the address.") from error


def _yield_finished(
    ray: Any, begin: Callable[[T], Any], items: Sequence[T], may_start: Callable[[], bool]
) -> Iterator[tuple[T, Any]]:
    waiting, running = list(reversed(items)), dict[Any, T]()
    while True:
        max_running = TASKS_PER_CORE * max(1, int(ray.cluster_resources().get("CPU", 1)))
        while waiting and len(running) < max_running and may_start():
            item = waiting.pop()
            running[begin(item)] = item
        if not running:
            return
        ready, _ = ray.wait(list(running), num_returns=1)
        for task in ready:
            yield running.pop(task), _get_result(ray, task)


def _get_result(ray: Any, task: Any) -> Any:
    """Return what came back; a task whose processes died again and again is lost."""
    try:
        return ray.get(task)
    except ray.exceptions.RayError as error:
        return Lost(f"Ray could not finish it ({type(error).__name__}: {str(error).splitlines()[0]})")


def _import_ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise MissingExtra(
            "The engine 'ray' needs the package ray, which is not installed. "
            "Install it with: pip install 'recveil[ray]'"
        ) from error
    return ray
