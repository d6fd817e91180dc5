"""Engine that runs tasks on a Ray cluster.

Results are merged by tasks in a tree. All nodes must see the files under the same paths (a shared file system). A task
that is lost with its node is run again: its input is still there, and its output appears whole under a name that
depends on the part alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from recveil.core.device import use_one_thread
from recveil.core.errors import RecveilError
from recveil.core.progress import RowCount, track_progress
from recveil.streaming.ray_cluster import connect_ray

__all__ = ["RayTaskEngine"]

S = TypeVar("S")
Task = TypeVar("Task", bound=Any)

MAX_RETRIES = 5
"""Times that a task lost with its node is run again."""


@dataclass(frozen=True)
class RayTaskEngine:
    """Runs tasks on a Ray cluster.

    Attributes:
        address: address of the cluster; None to start one that only this machine can reach.
    """

    address: str | None = None

    @property
    def workers(self) -> int:
        """Threads of one process that run tasks; each task has a process of its own."""
        return 1

    def reduce(self, work: Callable[[Task], S], tasks: Sequence[Task], merge: Callable[[S, S], S], label: str) -> S:
        """Run all tasks and merge their results on the cluster.

        Only the last state is fetched.
        """
        ray = connect_ray(self.address)
        run, join = _make_remote(ray, _run_task), _make_remote(ray, _merge_states)
        stored_work = ray.put(work)
        states = [run.remote(stored_work, task) for task in tasks]
        _wait_for_all(ray, states, tasks, label)
        while len(states) > 1:
            pairs = [states[i : i + 2] for i in range(0, len(states), 2)]
            states = [join.remote(merge, *pair) if len(pair) == 2 else pair[0] for pair in pairs]
        state: S = _get_result(ray, states[0])
        return state

    def run_all(self, work: Callable[[Task], None], tasks: Sequence[Task], label: str) -> None:
        """Run all tasks."""
        ray = connect_ray(self.address)
        stored_work, run = ray.put(work), _make_remote(ray, _run_task)
        _wait_for_all(ray, [run.remote(stored_work, task) for task in tasks], tasks, label)


def _make_remote(ray: Any, function: Callable[..., Any]) -> Any:
    return ray.remote(num_cpus=1, max_retries=MAX_RETRIES)(function)


def _run_task(work: Callable[[Any], Any], task: Any) -> Any:
    with use_one_thread():
        return work(task)


def _merge_states(merge: Callable[[Any, Any], Any], first: Any, second: Any) -> Any:
    return merge(first, second)


def _wait_for_all(ray: Any, refs: Sequence[Any], tasks: Sequence[Any], label: str) -> None:
    """Wait until all tasks are done; an error of a task is raised here."""
    rows = {ref: task.rows for ref, task in zip(refs, tasks, strict=True)}

    def iterate_finished() -> Iterator[RowCount]:
        pending = list(refs)
        while pending:
            done, pending = ray.wait(pending, num_returns=1, fetch_local=False)
            for ref in done:
                _get_result(ray, ref)
                yield RowCount(rows[ref])

    for _ in track_progress(iterate_finished(), label, sum(rows.values())):
        pass


def _get_result(ray: Any, ref: Any) -> Any:
    try:
        return ray.get(ref)
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, RecveilError):
            raise error.cause from None
        raise
