"""The campaign by one command: `python -m campaign.run --scale 1`, with tests/ on the path; `make campaign` does it.

Every case has a number; its damage is drawn from the seed and the number alone, so `--case NUMBER` repeats it. With
`--workers` cases run in several processes; with `--first`, `--count` and `--record` the campaign can be split over
machines, and `--sum` adds the records up.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from campaign.cases import copy_seeds
from campaign.doors import DOORS
from campaign.packages import prepare_packages
from campaign.record import Tally, list_passed, name_commit
from campaign.seeds import write_results, write_seeds
from campaign.worker import run_command
from campaign.workers import Place, run_numbers

N_INPUTS = 10_000
N_KILLS = 100


def check_doors(seeds: Path, place: Path) -> list[str]:
    """Run the command of every door on its undamaged inputs, and return those that it refuses."""
    refused = []
    for door in DOORS:
        copy_seeds(seeds, place, door)
        ended = run_command(door.command, place)
        shutil.rmtree(place)
        lacks_package = "needs the package" in ended.stderr  # refused in one line, which is judged in every case
        if ended.exit_code not in (0, 1) and not door.refuses_seeds and not lacks_package:
            refused.append(f"{door.name}: exit {ended.exit_code}: {ended.stderr}")
    return refused


def run_malformed_inputs(numbers: Sequence[int], options: argparse.Namespace) -> Tally:
    """Run malformed inputs, as many as the minutes allow, and return the tally."""
    tally, start = Tally(options.record, name_commit()), time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        seeds = Path(name) / "seeds"
        seeds.mkdir()
        write_seeds(seeds)
        write_results(seeds)
        if not options.case and (refused := check_doors(seeds, Path(name) / "check")):
            raise RuntimeError("Valid inputs are refused:\n" + "\n".join(refused))
        place = Place(options.seed, seeds, Path(name))
        for verdict in run_numbers(numbers, place, workers=options.workers):
            tally.add(verdict)
            if time.monotonic() - start > 60 * options.minutes:
                break
    print(f"commit {tally.commit}, seed {options.seed}, {time.monotonic() - start:.0f} s on {options.workers} workers")
    tally.print_counts()
    return tally


def choose_numbers(options: argparse.Namespace) -> list[int]:
    """List the cases that were asked for, without those that the record shows to have passed on this commit."""
    if options.case:
        return list(options.case)
    count = options.count if options.count is not None else round(N_INPUTS * options.scale)
    passed = list_passed(options.record, name_commit()) if options.record else set()
    return [number for number in range(options.first, options.first + count) if number not in passed]


def parse_options() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="share of the whole campaign")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--case", type=int, action="append", help="repeat this case alone; repeatable")
    parser.add_argument("--first", type=int, default=0, help="number of the first malformed input")
    parser.add_argument("--count", type=int, help="number of malformed inputs, in place of --scale")
    parser.add_argument("--workers", type=int, default=1, help="processes that run malformed inputs")
    parser.add_argument(
        "--record", type=Path, help="file to add a line for each case to; passed cases are not repeated"
    )
    parser.add_argument("--sum", type=Path, nargs="+", help="records to add up; nothing is run")
    parser.add_argument("--minutes", type=float, default=np.inf, help="no malformed input is begun after so long")
    parser.add_argument("--parts", default="inputs,kills,limits", help="inputs, kills, limits")
    return parser.parse_args()


def add_up(records: Sequence[Path]) -> int:
    """Print the counts of several records together, and return the number of failures."""
    tally = Tally()
    for record in records:
        tally.add_lines(record)
    tally.print_counts()
    return len(tally.failures)


def main() -> None:
    """Run the parts of the campaign that were asked for, and exit 1 if anything failed."""
    options = parse_options()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ["CUDA_VISIBLE_DEVICES"] = ""  # the driver of a GPU alone takes more address space than a worker may
    if options.sum:
        sys.exit(1 if add_up(options.sum) else 0)
    with tempfile.TemporaryDirectory() as name:
        prepare_packages(Path(name))
        sys.exit(1 if run_parts(options) else 0)


def run_parts(options: argparse.Namespace) -> int:
    """Run the parts that were asked for, and return the number of failures."""
    failures = 0
    if options.case or "inputs" in options.parts:
        failures += len(run_malformed_inputs(choose_numbers(options), options).failures)
    if "kills" in options.parts and not options.case:
        from campaign.kills import run_kills

        failures += run_kills(round(N_KILLS * options.scale), options.seed)
    if "limits" in options.parts and not options.case:
        from campaign.limits import run_limits

        failures += run_limits()
    return failures


if __name__ == "__main__":
    main()
