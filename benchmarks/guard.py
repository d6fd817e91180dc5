"""Five hot paths against a committed reference: fails where one costs over 1.3 times as much CPU as it did.

    python benchmarks/guard.py [--record]

Costs are CPU seconds on one thread relative to a fixed workload of NumPy and Python that runs in turn with them, each
the least of several runs, so that neither the machine nor its load matters much. A path that looks too slow is measured
again before it fails. `--record` writes the reference; do that in the commit that says why a path became slower, or
faster: a reference that is too large lets a path become slow again. The committed one is the largest of four records.
"""

import os

os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from recveil.attacks.attribute.kernel_ridge import KernelRidge
from recveil.attacks.attribute.panels import make_panel
from recveil.audits.attribute.audit import audit_attribute
from recveil.audits.attribute.folds import CrossValidation, draw_folds
from recveil.core.random import make_generator
from recveil.core.types import Dataset
from recveil.defenses.embeddings.gaussian import Gaussian
from recveil.metrics import ranking
from recveil.streaming.block_table import open_table
from recveil.streaming.cloaked_table import cloak_table
from recveil.streaming.engines import ThreadEngine
from recveil.streaming.labels import AttributeSource
from recveil.testing.worlds import make_planted_leak

REFERENCE = Path(__file__).with_name("guard.json")
LIMIT = 1.3
ROUNDS = 3
"""Runs of each path before it is judged, and again, up to ATTEMPTS times, while one is over the limit."""
ATTEMPTS = 4
MIN_SECONDS = 0.5
"""CPU seconds for which a path is run before the next one: short paths vary most."""


def calibrate() -> None:
    """Run the fixed workload: products, a sort, an exponential and a loop, about a fifth of a second."""
    rng = np.random.default_rng(0)
    a = rng.standard_normal((700, 700), dtype=np.float32)
    for _ in range(12):
        a = np.tanh(a @ a / 700)
    np.sort(rng.standard_normal(600_000))
    np.exp(rng.standard_normal(1_500_000))
    total = 0
    for number in range(600_000):
        total += number & 7


def rank_items(n_users: int = 6_000, n_items: int = 3_000) -> Callable[[], object]:
    """Rank a held-out item of each user in the whole catalog."""
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal((n, 32), dtype=np.float32) for n in (n_users, n_items))
    user, ids = np.repeat(np.arange(n_users), 40), (np.arange(n_users), np.arange(n_items))
    seen = ranking.collect_seen_items(Dataset("seen", user, rng.integers(n_items, size=len(user)), None, *ids))
    held = Dataset("held", np.arange(n_users), rng.integers(n_items, size=n_users), None, *ids)
    return lambda: ranking.rank(ranking.make_dot_scorer(x, y), held, seen)


def stream_table(folder: Path, rows: int = 100_000, d: int = 32) -> Callable[[], object]:
    """Cloak a compressed folder whose attributes are in another file, in another order."""
    rng = np.random.default_rng(0)
    codes, source = rng.integers(0, 2, rows), folder / "table"
    source.mkdir()
    lists = pa.FixedSizeListArray.from_arrays(pa.array(rng.standard_normal(rows * d, dtype=np.float32)), d)
    pq.write_table(pa.table({"user_id": np.arange(rows), "embedding": lists}), source / "0.parquet", compression="zstd")
    order, labels = rng.permutation(rows), np.array(["F", "M"])[codes]
    pq.write_table(pa.table({"user_id": order, "gender": labels[order]}), folder / "attributes.parquet")
    attributes = AttributeSource(folder / "attributes.parquet", ("gender",))

    def run() -> None:
        with tempfile.TemporaryDirectory(dir=folder) as out:
            cloak_table(open_table(source), attributes, Gaussian(), Path(out) / "out", engine=ThreadEngine(1))

    return run


def list_paths(folder: Path) -> dict[str, Callable[[], object]]:
    """Return the hot paths by name."""
    x, secret = make_planted_leak(800, 32, 2, 1.0, rng=np.random.default_rng(0))
    large, classes = make_planted_leak(40_000, 64, 2, 1.0, rng=np.random.default_rng(1))
    tasks = [t for o, inner in draw_folds(secret.codes, CrossValidation(3, 1), make_generator(0)) for t in (o, *inner)]
    return {
        "fast panel": partial(audit_attribute, x, secret, make_panel("fast", "cpu"), rules=CrossValidation(3, 1)),
        "kernel ridge": lambda: KernelRidge().guess(x, secret.codes, 2, tasks, rng=make_generator(0)),
        "ranking": rank_items(),
        "gaussian": lambda: Gaussian(device="cpu")(large, classes.codes, rng=make_generator(0)),
        "large table": stream_table(folder),
    }


def measure_least(work: Callable[[], object], least: float) -> float:
    """Return the CPU seconds of one run, or the least so far; short ones are run several times."""
    begin = time.process_time()
    while True:
        start = time.process_time()
        work()
        end = time.process_time()
        least = min(least, end - start)
        if end - begin > MIN_SECONDS:
            return least


def measure_costs(paths: dict[str, Callable[[], object]], reference: dict[str, float]) -> dict[str, float]:
    """Return the cost of each path in units of the fixed workload."""
    least = dict.fromkeys(paths, float("inf"))
    unit = float("inf")
    for work in paths.values():  # what is loaded once is not counted
        work()
    for _ in range(ATTEMPTS):
        for _ in range(ROUNDS):
            for name, work in paths.items():
                unit = measure_least(calibrate, unit)
                least[name] = measure_least(work, least[name])
        if all(least[name] / unit <= LIMIT * reference.get(name, 0.0) for name in paths):
            break
    return {name: round(seconds / unit, 3) for name, seconds in least.items()}


def main() -> None:
    """Compare with the reference, or record it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    reference = {} if options.record else json.loads(REFERENCE.read_text())
    with tempfile.TemporaryDirectory() as folder:
        costs = measure_costs(list_paths(Path(folder)), reference)
    if options.record:
        REFERENCE.write_text(json.dumps(costs, indent=2) + "\n")
    for name, cost in costs.items():
        print(f"{name}: {cost:.2f} units, {cost / reference.get(name, cost):.2f} times the reference")
    slow = [name for name, cost in costs.items() if cost > LIMIT * reference.get(name, cost)]
    if slow:
        sys.exit(f"Over {LIMIT} times the reference: {', '.join(slow)}.")


if __name__ == "__main__":
    main()
