"""A cluster of our own is out of reach for other machines, and no other cluster is joined unless it is named."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from recveil.core.errors import UsageError
from recveil.streaming.ray_cluster import connect_ray

STARTED = """
import json, os, signal
from pathlib import Path
before = signal.getsignal(signal.SIGTERM)
from recveil.streaming.ray_cluster import connect_ray
ray = connect_ray(None, num_cpus=2)
answer = ray.get(ray.remote(lambda: 6 * 7).remote())

def list_tree(pid):
    try:
        lists = [tasks.read_text() for tasks in Path(f"/proc/{pid}/task").glob("*/children")]
    except OSError:  # the process has ended
        lists = []
    children = [int(child) for text in lists for child in text.split()]
    return [pid, *(each for child in children for each in list_tree(child))]

def list_sockets(pid):
    for handle in Path(f"/proc/{pid}/fd").glob("*"):
        try:
            yield os.readlink(handle)
        except OSError:
            pass

sockets = {name for pid in list_tree(os.getpid()) for name in list_sockets(pid)}
listening = {}
for table in ("tcp", "tcp6"):
    for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[3] == "0A" and f"socket:[{fields[9]}]" in sockets:  # 0A: the socket listens
            listening[fields[1]] = fields[1].split(":")[0]
unchanged = signal.getsignal(signal.SIGTERM) is before and "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER" not in os.environ
tokens = os.environ.get("RAY_AUTH_MODE")
ray.shutdown()
print(json.dumps({"answer": answer, "addresses": list(listening.values()), "unchanged": unchanged, "tokens": tokens}))
"""
LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}
"""127.0.0.1, the same as an IPv6 address, and ::1, as the kernel writes them."""


@pytest.mark.slow
def test_a_cluster_of_our_own_listens_on_the_loopback_interface_alone(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    # A cluster that happens to be named in the surroundings is not ours.
    environment = {**os.environ, "RAY_ADDRESS": "127.0.0.1:1", "HOME": str(tmp_path)}
    environment.pop("RAY_AUTH_MODE", None)
    done = subprocess.run([sys.executable, "-c", STARTED], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout.splitlines()[-1])
    assert seen["answer"] == 42
    assert len(seen["addresses"]) >= 4  # this process, the control store, the node and its workers
    assert set(seen["addresses"]) <= LOOPBACK
    assert seen["unchanged"]
    assert seen["tokens"] == "token"


def test_an_address_at_which_nobody_listens_is_refused_at_once() -> None:
    pytest.importorskip("ray")
    for address in ("127.0.0.1:1", "ray://127.0.0.1:1", "127.0.0.1:99999"):
        with pytest.raises(UsageError, match="No Ray cluster answers"):
            connect_ray(address)
