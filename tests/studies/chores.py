"""Cells that cost nothing, for tests of the engines; light to import, so that processes start at once."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from recveil.studies.cell_results import AttributeDetails, CellResult, CellTiming
from recveil.studies.cells import Cell
from recveil.studies.plans import Plan
from recveil.studies.runs import Outcome

RAW = {
    "title": "chores",
    "kind": "attribute",
    "grid": {"data": ["a", "b"], "model": ["m"], "target": ["t"], "seed": list(range(10))},
    "smoke": {"seed": [0]},
}


def plan(**grid: object) -> Plan:
    return Plan.parse({**RAW, "grid": {**RAW["grid"], **grid}}, name="chores")


class Inline:
    """An engine without processes."""

    name = "inline"

    def run(
        self, work: Callable[[Cell], Outcome], cells: Sequence[Cell], *, may_start: Callable[[], bool]
    ) -> Iterator[tuple[Cell, Outcome]]:
        for cell in cells:
            if may_start():
                yield cell, work(cell)


def invent(cell: Cell) -> CellResult:
    ranks = random.Random(cell.id).randbytes(5_000).hex()
    return CellResult(cell, [], AttributeDetails(ranks=ranks, base="", test_share=1.0, targets={}))


def quick(cache: Path, cell: Cell) -> Outcome:
    time.sleep(0.005)
    (cache / cell.id).touch()
    return Outcome(invent(cell), CellTiming(seconds={"all": 0.005}))


def slow(cache: Path, cell: Cell) -> Outcome:
    time.sleep(0.5)
    return Outcome(invent(cell), CellTiming(seconds={"all": 0.5}))


def endless(cache: Path, cell: Cell) -> Outcome:
    """Finish seed 0; work on any other until somebody ends the process."""
    if cell.seed:
        time.sleep(600)
    return quick(cache, cell)


def deadly(cache: Path, cell: Cell) -> Outcome:
    """Kill the process at seed 0 always, at seed 1 the first time."""
    mark = cache / f"{cell.id}-begun"
    if cell.seed == 0 or (cell.seed == 1 and not mark.exists()):
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return Outcome(invent(cell))


def tell_process(item: object) -> tuple[object, int]:
    time.sleep(0.02)
    return item, os.getpid()


def main() -> None:
    """Run the chores in a process of its own, to be killed."""
    import sys

    from recveil.studies.runs import LocalEngine, run_study

    run_study(plan(), sys.argv[1], LocalEngine(2), work=endless if sys.argv[2:] == ["endless"] else quick)


if __name__ == "__main__":
    main()
