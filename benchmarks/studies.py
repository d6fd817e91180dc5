"""The cost of the study engine: 200 trivial cells on two workers, and `study show` on 10,000 finished cells.

    python benchmarks/studies.py

Asked for: at most 5 % over the sum of the cells' own times on two workers; the list in under 2 seconds, start of the
process included. A trivial cell sleeps, so that what is measured is the engine and not who shares the machine; its
records are as large as a real cell's, and go through the same processes and the same store.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from recveil.core.types import Estimate, Record
from recveil.studies.cell_results import AttributeDetails, CellResult, CellTiming
from recveil.studies.cells import Cell
from recveil.studies.plans import Plan
from recveil.studies.runs import LocalEngine, Outcome, run_study
from recveil.studies.store import create_store, describe_plan

RAW = {
    "title": "trivial cells",
    "kind": "attribute",
    "grid": {"data": ["a", "b"], "model": ["bprmf", "lightgcn"], "target": ["gender"]},
}
SECONDS = 0.2


def plan(cells: int) -> Plan:
    """Make a plan of so many cells, in groups like those of a real one."""
    grid = {**RAW["grid"], "panel": [f"panel {n}" for n in range(10)], "seed": list(range(cells // 40))}
    return Plan.parse({**RAW, "grid": grid}, name="trivial")


def trivial(cache: Path, cell: Cell) -> Outcome:
    """Sleep for a while; return a result as large as a real one."""
    start = time.perf_counter()
    time.sleep(SECONDS)
    record = Record("a", "bprmf", "none", "logistic", "gender", 0, "auc", Estimate(0.5, 0.4, 0.6, 100))
    details = AttributeDetails(ranks="00" * 6040, base="", test_share=0.25, targets={})
    timing = CellTiming(seconds={"all": time.perf_counter() - start})
    return Outcome(CellResult(cell, [record] * 100, details), timing)


def overhead(cells: int, workers: int) -> None:
    """Print wall time against the cells' own times, shared among the workers."""
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        tally = run_study(plan(cells), Path(folder) / "out", LocalEngine(workers), work=trivial)
        wall = time.perf_counter() - start
        store = create_store(Path(folder) / "out")
        own = sum(store.read_timing(cell).seconds["all"] for cell in store.finished_ids())
    ratio = wall / (own / workers)
    print(f"{tally.done} cells of {SECONDS} s on {workers} workers: wall {wall:.2f} s, own times {own:.2f} s, ", end="")
    print(f"ratio {ratio:.3f} (asked: at most 1.05)")


def listing(cells: int) -> None:
    """Time the whole command, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        whole = plan(cells)
        store = create_store(Path(folder) / "out")
        describe_plan(store, whole)
        for cell in whole.cells():
            (store.folder / "cells" / f"{cell.id}.json").write_text("{}")
        command = [sys.executable, "-c", "from recveil.cli.app import main; main()", "study", "show", str(store.folder)]
        seconds, spent = [], resource.getrusage(resource.RUSAGE_CHILDREN)
        for _ in range(3):
            start = time.perf_counter()
            out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            seconds.append(time.perf_counter() - start)
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = (used.ru_utime + used.ru_stime - spent.ru_utime - spent.ru_stime) / len(seconds)
        print(f"load of the machine {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
        print(out.splitlines()[0])
        print(
            f"recveil study show: {min(seconds):.2f} s (best of 3), worst {max(seconds):.2f}, CPU {cpu:.2f} s; asked: 2"
        )


def main() -> None:
    """Both measurements."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cells", type=int, default=200)
    parser.add_argument("--finished", type=int, default=10_000)
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    overhead(given.cells, given.workers)
    listing(given.finished)


if __name__ == "__main__":
    main()
