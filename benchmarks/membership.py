"""How long one DL-MIA setting takes: 2,000 shadow and 2,000 target users, d = 100, the paper's passes, as Markdown.

    python benchmarks/membership.py [--device cuda] [--threads 1] [--users 2000] [--dims 100] [--encoders dual beta-vae]

Wall is what a user waits, CPU what the process computed: on a machine that others use as well the two differ. A short
training goes first, so that no row pays for starting up the device.
"""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import argparse
import time
from dataclasses import replace

import numpy as np
import torch

from recveil.attacks.membership.dlmia import DLMIA, ENCODERS
from recveil.core import Shadow, Watched
from recveil.random import generator

ITEMS, HISTORY, LISTED = 3_000, 100, 100


def world(users: int, vectors: np.ndarray, rng: np.random.Generator) -> Shadow:
    """Users who touch and are served random items; half of them are members."""
    histories = rng.integers(ITEMS, size=(users, HISTORY))
    lists = rng.integers(ITEMS, size=(users, LISTED))
    return Shadow(Watched(list(histories), lists, vectors), np.arange(users) % 2 == 0)


def seconds(attack: DLMIA, known: Shadow, target: Watched) -> tuple[float, float]:
    """Wall and CPU seconds of fitting and scoring; scores come to the CPU, so the device is done by then."""
    wall, cpu = time.perf_counter(), time.process_time()
    attack.fit([known], reference=target, rng=generator(0, "attack")).score(target)
    return time.perf_counter() - wall, time.process_time() - cpu


def main() -> None:
    """One row for each encoder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--users", type=int, default=2_000)
    parser.add_argument("--dims", type=int, default=100)
    parser.add_argument("--encoders", nargs="+", default=list(ENCODERS), choices=ENCODERS)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    rng = generator(0, "worlds")
    vectors = rng.standard_normal((ITEMS, given.dims)).astype(np.float32)
    known, target = world(given.users, vectors, rng), world(given.users, vectors, rng).watched
    attacks = {name: DLMIA(encoder=name, device=given.device) for name in given.encoders}
    seconds(replace(next(iter(attacks.values())), pretrain=2, alternate=2), known, target)
    where = f"{given.device}, {given.threads} thread(s); load of the machine {os.getloadavg()[0]:.1f}"
    print(f"{given.users:,} + {given.users:,} users, d = {given.dims}, {where} on {os.cpu_count()} cores\n")
    print("| encoder | wall s | CPU s |\n| --- | --- | --- |")
    for name, attack in attacks.items():
        wall, cpu = seconds(attack, known, target)
        print(f"| {name} | {wall:.1f} | {cpu:.1f} |", flush=True)


if __name__ == "__main__":
    main()
