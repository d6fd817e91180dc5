"""Work shared among the nodes of a Ray cluster: the same function, as Ray tasks. A lost node loses nothing.

for cell, outcome in Ray("ray://head:10001", gpus=0.1).run(work, cells, go_on=...): ...
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
"""How often Ray begins a task again whose process or node died."""

CONNECT_SECONDS = 10.0
"""Seconds that a cluster has to answer in."""

TASKS_PER_CORE = 4
"""Tasks handed to Ray for each core, so that none is idle and stopping needs not wait for all."""


@dataclass(frozen=True)
class RayEngine:
    """A cluster: the one at `address`, or this machine; `gpus` is the share of a GPU that one cell takes."""

    address: str | None = None
    gpus: float = 0.0
    name: str = "ray"

    def run(
        self, work: Callable[[T], R], items: Sequence[T], *, go_on: Callable[[], bool] = lambda: True
    ) -> Generator[tuple[T, R | Lost], None, None]:
        """Each item with what `work` made of it, as they are finished; nothing is begun once `go_on` says no.

        Results come back through Ray and are written where this runs, so nodes need no common disk.
        """
        ray = _import_ray()
        ours = not ray.is_initialized()
        if ours:
            self._connect(ray)
        task = ray.remote(_call_work).options(
            num_cpus=1, num_gpus=self.gpus, max_retries=MAX_RETRIES, retry_exceptions=False
        )
        try:
            yield from _yield_finished(ray, partial(task.remote, work), items, go_on)
        finally:
            if ours:
                ray.shutdown()

    def _connect(self, ray: Any) -> None:
        _check_answers(self.address)
        quiet = {"logging_level": "error", "log_to_driver": False}
        threads = {"env_vars": dict.fromkeys(THREAD_VARIABLES, "1")}
        local = {"include_dashboard": False} if self.address is None else {}
        try:
            ray.init(address=self.address or "local", runtime_env=threads, **quiet, **local)
        except (ConnectionError, ValueError) as error:
            raise UsageError(f"No Ray cluster answers at {self.address}: {error}. Check --address.") from error


def _call_work(work: Callable[[T], R], item: T) -> R:
    """Ray takes functions alone, and `work` may be a partial one."""
    return work(item)


def _check_answers(address: str | None) -> None:
    """Say at once that nobody is there: Ray itself would go on asking for minutes."""
    host, colon, port = (address or "").removeprefix("ray://").rpartition(":")
    if colon and port.isdigit():
        try:
            socket.create_connection((host, int(port)), timeout=CONNECT_SECONDS).close()
        except OSError as error:
            raise UsageError(f"No Ray cluster answers at {address} ({error}). Check --address.") from error


def _yield_finished(
    ray: Any, begin: Callable[[T], Any], items: Sequence[T], go_on: Callable[[], bool]
) -> Iterator[tuple[T, Any]]:
    waiting, running = list(reversed(items)), dict[Any, T]()
    while True:
        room = TASKS_PER_CORE * max(1, int(ray.cluster_resources().get("CPU", 1)))
        while waiting and len(running) < room and go_on():
            item = waiting.pop()
            running[begin(item)] = item
        if not running:
            return
        ready, _ = ray.wait(list(running), num_returns=1)
        for one in ready:
            yield running.pop(one), _get_result(ray, one)


def _get_result(ray: Any, one: Any) -> Any:
    """What came back; a task whose processes died again and again is lost, like one that the engine could not run."""
    try:
        return ray.get(one)
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
