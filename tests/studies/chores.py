"""Cells that cost nothing, for tests of what carries them; light to import, so that processes start at once."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from recveil.studies.plans import Cell, Plan
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
        self, work: Callable[[Cell], Outcome], cells: Sequence[Cell], *, go_on: Callable[[], bool]
    ) -> Iterator[tuple[Cell, Outcome]]:
        for cell in cells:
            if go_on():
                yield cell, work(cell)


def told(cell: Cell) -> dict[str, object]:
    draws = random.Random(cell.id)
    return {"cell": cell.to_dict(), "records": [], "details": {"numbers": [draws.random() for _ in range(500)]}}


def quick(cache: Path, cell: Cell) -> Outcome:
    time.sleep(0.02)
    (cache / cell.id).touch()
    return Outcome(told(cell), {"seconds": {"all": 0.02}})


def slow(cache: Path, cell: Cell) -> Outcome:
    time.sleep(0.5)
    return Outcome(told(cell), {"seconds": {"all": 0.5}})


def endless(cache: Path, cell: Cell) -> Outcome:
    """Seed 0 is quick; whoever does another one is at work until somebody ends it."""
    if cell.seed:
        time.sleep(600)
    return quick(cache, cell)


def deadly(cache: Path, cell: Cell) -> Outcome:
    """Seed 0 kills its process always, seed 1 the first time."""
    mark = cache / f"{cell.id}-met"
    if cell.seed == 0 or (cell.seed == 1 and not mark.exists()):
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return Outcome(told(cell), {})


def where(item: object) -> tuple[object, int]:
    time.sleep(0.05)
    return item, os.getpid()


def main() -> None:
    """Run the chores in a process of its own, to be killed."""
    import sys

    from recveil.studies.runs import LocalEngine, run_study

    run_study(plan(), sys.argv[1], LocalEngine(2), work=endless if sys.argv[2:] == ["endless"] else quick)


if __name__ == "__main__":
    main()
