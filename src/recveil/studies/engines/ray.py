"""Work shared among the nodes of a Ray cluster: the same function, as Ray tasks. A lost node loses nothing.

for cell, outcome in RayEngine("ray://head:10001", gpus=0.1).run(work, cells, may_start=...): ...
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from recveil.streaming.ray_cluster import connect_ray, import_ray
from recveil.studies.engines.local import THREAD_VARIABLES, Lost

__all__ = ["RayEngine"]

T = TypeVar("T")
R = TypeVar("R")

MAX_RETRIES = 3
"""Times that Ray begins a task again whose process or node died."""

TASKS_PER_CORE = 4
"""Tasks handed to Ray for each core: none is idle, and stopping does not wait for all items."""


@dataclass(frozen=True)
class RayEngine:
    """A Ray cluster: the one at `address`, or a new one that only this machine can reach.

    `gpus` is the share of a GPU that one cell takes.
    """

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
        connects = not import_ray().is_initialized()
        ray = connect_ray(self.address, runtime_env={"env_vars": dict.fromkeys(THREAD_VARIABLES, "1")})
        options = {"num_cpus": 1, "num_gpus": self.gpus, "max_retries": MAX_RETRIES, "retry_exceptions": False}
        task = ray.remote(_call_work).options(**options)
        try:
            yield from _yield_finished(ray, partial(task.remote, work), items, may_start)
        finally:
            if connects:
                ray.shutdown()


def _call_work(work: Callable[[T], R], item: T) -> R:
    """Call the work: Ray takes functions alone, and `work` may be a partial one."""
    return work(item)


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
