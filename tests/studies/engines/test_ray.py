"""The same cells on a Ray cluster of two nodes, one of which dies; the clusters are the tests' own."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from recveil.core.errors import MissingExtra, UsageError
from recveil.studies.engines.ray import RayEngine
from recveil.studies.plans import Plan
from recveil.studies.runs import LocalEngine, run_study


def test_without_the_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtra, match=r"pip install 'recveil\[ray\]'"):
        next(RayEngine().run(abs, [1]))


class Pretended:
    """A Ray that runs tasks when their result is asked for, and loses those it is told to."""

    class exceptions:  # noqa: N801 - as Ray calls it
        class RayError(Exception):
            pass

    def __init__(self) -> None:
        self.task_options: dict[str, Any] = {}

    def is_initialized(self) -> bool:
        return True

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": 1.0}

    def remote(self, work: Any) -> Any:
        outer = self

        class Task:
            def options(self, **options: Any) -> Any:
                outer.task_options = options
                return self

            def remote(self, *args: Any) -> Any:
                return partial(work, *args)

        return Task()

    def wait(self, tasks: list[Any], num_returns: int) -> tuple[list[Any], list[Any]]:
        return tasks[-num_returns:], tasks[:-num_returns]

    def get(self, task: Any) -> Any:
        if task.args[-1] == 3:
            raise self.exceptions.RayError("the node is gone\nmore lines")
        return task()


def test_items_come_back_once_and_lost_ones_as_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    pretended = Pretended()
    monkeypatch.setitem(sys.modules, "ray", pretended)  # type: ignore[arg-type]
    found = dict(RayEngine(gpus=0.1).run(abs, [-1, -2, 3, -4, -5, -6]))
    assert {k: v for k, v in found.items() if k != 3} == {-1: 1, -2: 2, -4: 4, -5: 5, -6: 6}
    assert found[3].reason == "Ray could not finish it (RayError: the node is gone)"
    assert pretended.task_options["num_gpus"] == 0.1
    assert pretended.task_options["max_retries"] > 0
    calls = iter([True, True])
    assert len(list(RayEngine().run(abs, [-1, -2, -4, -5], may_start=lambda: next(calls, False)))) == 2


@pytest.fixture
def cluster(chores: ModuleType) -> Iterator[Any]:
    """Two nodes on this machine, the head without cores, so that all work is on nodes that can be killed."""
    from ray.cluster_utils import Cluster

    small = {"object_store_memory": 100 * 2**20, "include_dashboard": False}
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, **small})
    nodes = [made.add_node(num_cpus=1, **small) for _ in range(2)]
    made.wait_for_nodes()
    try:
        yield made, nodes
    finally:
        import ray

        ray.shutdown()
        made.shutdown()


def cells_in(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / "cells").iterdir()}


def small_plan(data: str) -> Plan:
    model = {"name": "bprmf", "epochs": 2, "embedding_size": 8}
    grid = {"data": [data], "model": [model], "defense": ["none", "leace", "ldp"], "target": ["gender"]}
    grid |= {"panel": ["logistic"], "seed": [0, 1]}
    return Plan.parse({"title": "t", "kind": "attribute", "grid": grid, "settings": {"device": "cpu"}}, name="p")


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_two_nodes_give_the_same_cells_as_processes(cluster: Any, tiny: str, tmp_path: Path) -> None:
    made, _ = cluster
    plan = small_plan(tiny)
    assert run_study(plan, tmp_path / "ray", RayEngine(made.address)).done == 6
    assert run_study(plan, tmp_path / "local", LocalEngine(1)).done == 6
    assert cells_in(tmp_path / "ray") == cells_in(tmp_path / "local")


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_a_node_that_is_killed_loses_nothing(cluster: Any, chores: ModuleType, tmp_path: Path) -> None:
    made, nodes = cluster
    done = threading.Event()

    def kill() -> None:
        while len(list((tmp_path / "ray" / "cells").glob("*.json"))) < 5 and not done.is_set():
            time.sleep(0.05)
        made.remove_node(nodes[0], allow_graceful=False)
        killed.append(len(list((tmp_path / "ray" / "cells").glob("*.json"))))

    killed: list[int] = []
    killer = threading.Thread(target=kill)
    killer.start()
    tally = run_study(chores.plan(), tmp_path / "ray", RayEngine(made.address), work=chores.slow)
    done.set()
    killer.join()
    assert (tally.done, tally.failed) == (20, 0)
    assert 5 <= killed[0] < 20  # it died half-way
    run_study(chores.plan(), tmp_path / "local", chores.Inline(), work=chores.quick)
    assert cells_in(tmp_path / "ray") == cells_in(tmp_path / "local")


def test_no_cluster_at_the_address() -> None:
    pytest.importorskip("ray")
    with pytest.raises(UsageError, match="No Ray cluster answers at 127.0.0.1:1 "):
        next(RayEngine("127.0.0.1:1").run(os.getenv, ["HOME"]))
