"""The same passes on a cluster: the same bytes, also when a node dies."""

from __future__ import annotations

import importlib.util
import logging
import os
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from recveil.core.errors import DataError, MissingExtra
from recveil.defenses.embeddings.gaussian import Gaussian
from recveil.defenses.embeddings.sliced import Sliced
from recveil.streaming.block_table import open_table
from recveil.streaming.cloaked_table import cloak_table
from recveil.streaming.engines import ThreadEngine
from recveil.streaming.labels import AttributeSource
from recveil.streaming.passes import PartOutput, WriteTask
from recveil.streaming.ray_engine import RayTaskEngine

GENDER = AttributeSource(None, ("gender",))


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_without_the_package_it_says_which_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr("recveil.streaming.ray_cluster.importlib.import_module", missing)
    with pytest.raises(MissingExtra, match=r"recveil\[ray\]"):
        RayTaskEngine().run_all(print, [], "")


@pytest.fixture
def cluster() -> Iterator[Any]:
    """Two nodes on this machine, the first without processors to spare; only this cluster is ever stopped."""
    if importlib.util.find_spec("ray") is None:
        pytest.skip("ray is not installed")
    warnings.simplefilter("ignore")  # of a package that is not ours, in other processes too
    os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"
    import ray
    from ray.cluster_utils import Cluster

    memory = {"object_store_memory": 100 * 2**20}
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False, **memory})
    made.doomed = made.add_node(num_cpus=1, **memory)  # type: ignore[attr-defined]
    ray.init(address=made.address, log_to_driver=False, logging_level=logging.ERROR)
    yield made
    ray.shutdown()
    made.shutdown()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_cluster_of_two_writes_what_one_machine_writes(
    make: Callable[..., Any], tmp_path: Path, cluster: Any
) -> None:
    world = make(n=6000, parts=5)
    for number, method in enumerate((Gaussian(), Sliced(rounds=3))):
        here, there = tmp_path / f"here{number}", tmp_path / f"there{number}"
        cloak_table(open_table(world.path), GENDER, method, here, engine=ThreadEngine(2))
        done = cloak_table(open_table(world.path), GENDER, method, there, engine=RayTaskEngine(cluster.address))
        assert done.parts_written == 5
        assert contents(here) == contents(there)
    broken = world.path / "part-3.parquet"
    data = bytearray(broken.read_bytes())
    data[4:2000] = bytes(1996)
    broken.write_bytes(data)
    with pytest.raises(DataError, match=r"part-3\.parquet cannot be read"):  # the sentence, not a traceback of Ray
        cloak_table(open_table(world.path), GENDER, Gaussian(), tmp_path / "no", engine=RayTaskEngine(cluster.address))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_node_that_is_killed_in_the_middle_changes_nothing(
    make: Callable[..., Any], tmp_path: Path, cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, out, over = make(n=6000, parts=16), tmp_path / "out", threading.Event()
    killed: list[int] = []

    class Slow(WriteTask):
        def __call__(self, output: PartOutput) -> None:
            time.sleep(0.5)
            WriteTask.__call__(self, output)

    def kill() -> None:
        while not over.wait(0.02):
            parts = list(out.glob("[!.]*.parquet")) if out.is_dir() else []
            if len(parts) >= 3:
                cluster.remove_node(cluster.doomed, allow_graceful=False)
                killed.append(len(parts))
                return

    monkeypatch.setattr("recveil.streaming.cloaked_table.WriteTask", Slow)
    killer = threading.Thread(target=kill)
    killer.start()
    done = cloak_table(open_table(world.path), GENDER, Gaussian(), out, engine=RayTaskEngine(cluster.address))
    over.set()
    killer.join()
    assert killed
    assert killed[0] < 16  # in the middle
    assert done.parts_written == 16
    monkeypatch.setattr("recveil.streaming.cloaked_table.WriteTask", WriteTask)
    cloak_table(open_table(world.path), GENDER, Gaussian(), tmp_path / "whole", engine=ThreadEngine(2))
    assert contents(out) == contents(tmp_path / "whole")  # all of it, once, and nothing half-written
