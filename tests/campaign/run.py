"""The campaign by one command: `python -m campaign.run --scale 1`, with tests/ on the path; `make campaign` does it.

Every case has a number; its damage is drawn from the seed and the number alone, so `--case NUMBER` repeats it.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import resource
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np

from campaign.doors import DOORS, Door, prepare_case
from campaign.judge import judge_command, list_files
from campaign.processes import run_process
from campaign.seeds import write_results, write_seeds
from campaign.worker import Ended, run_command

N_INPUTS = 10_000
ONE_PROCESS_IN = 100
"""One case in so many is run as a process of its own."""
NO_ANSWER = -1
"""Exit code of a case whose worker did not answer."""
MAX_WAIT_SECONDS = 600.0
"""Seconds on the clock after which a case counts as a hang; the judge counts processor time."""
MAX_BYTES = 8 << 30
"""Address space of a worker, so that a case that takes all memory ends itself alone."""


@dataclass
class Verdict:
    """What became of a case."""

    number: int
    door: str
    command: list[str]
    ended: Ended
    faults: list[str]


@dataclass
class Tally:
    """Counts by door and exit code, and the cases that failed."""

    counts: Counter[tuple[str, int]] = field(default_factory=Counter)
    failures: list[Verdict] = field(default_factory=list)

    def add(self, verdict: Verdict) -> None:
        self.counts[verdict.door, verdict.ended.exit_code] += 1
        if verdict.faults:
            self.failures.append(verdict)
            print_failure(verdict)


def choose_door(number: int) -> Door:
    """Return the door of a case; doors take turns by their weights."""
    turns = [door for door in DOORS for _ in range(door.weight)]
    return turns[number * 37 % len(turns)]


def run_case(number: int, seed: int, seeds: Path, place: Path, *, as_process: bool = False) -> Verdict:
    """Run one case in a fresh copy of the seeds and judge it.

    Args:
        number: number of the case.
        seed: seed of the campaign.
        seeds: folder of valid inputs.
        place: folder to copy them to; it is removed afterwards.
        as_process: whether the command runs in a process of its own.
    """
    door, rng = choose_door(number), np.random.default_rng([seed, number])
    shutil.copytree(seeds, place)
    try:
        command = prepare_case(door, place, rng)
        before = list_files(place)
        ended = run_process(command, place) if as_process else run_command(command, place)
        faults = judge_command(ended, before, list_files(place), keeps_folder=door.keeps_folder)
    finally:
        shutil.rmtree(place)
    return Verdict(number, door.name, command, ended, faults)


def print_failure(verdict: Verdict) -> None:
    """Print a case that failed: what is wrong, how to repeat it, and what was shown."""
    words = " ".join(word if len(word) < 80 else f"{word[:40]}...({len(word)})" for word in verdict.command)
    shown = repr(verdict.ended.stderr[-600:])
    print(
        f"FAILED --case {verdict.number} [{verdict.door}] {', '.join(verdict.faults)}: {words!a}\n    {shown}",
        flush=True,
    )


def serve_cases(pipe: Connection, seed: int, seeds: Path, place: Path) -> None:
    """Run the cases that come through the pipe, until this process is ended."""
    resource.setrlimit(resource.RLIMIT_AS, (MAX_BYTES, MAX_BYTES))
    tempfile.tempdir = str(place.parent)
    while True:
        number = pipe.recv()
        as_process = number % ONE_PROCESS_IN == 0 and not choose_door(number).name.startswith("map")
        pipe.send(run_case(number, seed, seeds, place, as_process=as_process))


def run_numbers(numbers: range | list[int], seed: int, seeds: Path, work: Path) -> Iterator[Verdict]:
    """Run cases in a worker process; one that does not answer in time is ended and replaced."""
    waiting, context = list(numbers), multiprocessing.get_context("spawn")
    while waiting:
        place = Path(tempfile.mkdtemp(dir=work)) / "case"
        ours, theirs = context.Pipe()
        process = context.Process(target=serve_cases, args=(theirs, seed, seeds, place), daemon=False)
        process.start()
        theirs.close()
        try:
            while waiting:
                verdict = _ask_worker(ours, waiting.pop(0))
                yield verdict
                if verdict.ended.exit_code == NO_ANSWER:
                    break
        finally:
            process.kill()
            process.join()


def _ask_worker(pipe: Connection, number: int) -> Verdict:
    """Have a case run and return its verdict; a worker that dies or hangs is a verdict too."""
    start = time.monotonic()
    pipe.send(number)
    try:
        if pipe.poll(MAX_WAIT_SECONDS):
            verdict: Verdict = pipe.recv()
            return verdict
        fault = "hang"
    except EOFError:
        fault = "the process died"
    return Verdict(number, choose_door(number).name, [], Ended(NO_ANSWER, "", "", time.monotonic() - start), [fault])


def print_counts(tally: Tally) -> None:
    """Print counts by door and exit code, and the number of failures."""
    codes = sorted({code for _, code in tally.counts})
    print(f"{'door':32}{''.join(f'{code:>7}' for code in codes)}{'failed':>8}")
    for door in DOORS:
        counts = [tally.counts[door.name, code] for code in codes]
        failed = sum(verdict.door == door.name for verdict in tally.failures)
        if any(counts):
            print(f"{door.name:32}{''.join(f'{count:>7}' for count in counts)}{failed:>8}")
    totals = [sum(count for (_, other), count in tally.counts.items() if other == code) for code in codes]
    print(f"{'all: ' + str(sum(totals)):32}{''.join(f'{count:>7}' for count in totals)}{len(tally.failures):>8}")


def check_doors(seeds: Path, place: Path) -> list[str]:
    """Run the command of every door on its undamaged inputs, and return those that it refuses."""
    refused = []
    for door in DOORS:
        shutil.copytree(seeds, place)
        ended = run_command(door.command, place)
        shutil.rmtree(place)
        if ended.exit_code not in (0, 1) and not door.refuses_seeds:
            refused.append(f"{door.name}: exit {ended.exit_code}: {ended.stderr}")
    return refused


def run_malformed_inputs(numbers: range | list[int], seed: int, minutes: float = np.inf) -> Tally:
    """Run malformed inputs, as many as the minutes allow, and return the tally."""
    tally, start = Tally(), time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        seeds = Path(name) / "seeds"
        seeds.mkdir()
        write_seeds(seeds)
        write_results(seeds)
        if refused := check_doors(seeds, Path(name) / "check"):
            raise RuntimeError("Valid inputs are refused:\n" + "\n".join(refused))
        for verdict in run_numbers(numbers, seed, seeds, Path(name)):
            tally.add(verdict)
            if time.monotonic() - start > 60 * minutes:
                break
    print_counts(tally)
    return tally


def main() -> None:
    """Run the parts of the campaign that were asked for, and exit 1 if anything failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="share of the whole campaign")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--case", type=int, action="append", help="repeat this case alone")
    parser.add_argument("--minutes", type=float, default=np.inf, help="no malformed input is begun after so long")
    parser.add_argument("--parts", default="inputs,kills,limits", help="inputs, kills, limits")
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    failures = 0
    if options.case or "inputs" in options.parts:
        numbers = options.case or range(round(N_INPUTS * options.scale))
        failures += len(run_malformed_inputs(numbers, options.seed, options.minutes).failures)
    if "kills" in options.parts and not options.case:
        from campaign.kills import run_kills

        failures += run_kills(round(100 * options.scale), options.seed)
    if "limits" in options.parts and not options.case:
        from campaign.limits import run_limits

        failures += run_limits()
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
