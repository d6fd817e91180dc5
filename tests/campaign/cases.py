"""Cases: a number gives a door and its damage; running it in a copy of the seeds gives a verdict."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from campaign.doors import DOORS, Door, prepare_case
from campaign.judge import REFUSALS, judge_command, list_files, list_replaced
from campaign.processes import run_process
from campaign.worker import Ended, run_command

ONE_PROCESS_IN = 250
"""One case in so many is run as a process of its own."""
ONE_STRONG_CHECK_IN = 4
"""One case in so many keeps the whole panel of the self-check; the others have its two quickest attackers."""
TURNS = tuple(door for door in DOORS for _ in range(door.weight))
STRIDE = 37


@dataclass
class Verdict:
    """What became of a case."""

    number: int
    door: str
    command: list[str]
    ended: Ended
    faults: list[str]


def choose_door(number: int) -> Door:
    """Return the door of a case; doors take turns by their weights."""
    return TURNS[number * STRIDE % len(TURNS)]


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
    copy_seeds(seeds, place, door)
    strong_check = number // len(TURNS) % ONE_STRONG_CHECK_IN == 0
    try:
        command = prepare_case(door, place, rng)
        before = list_files(place)
        ended = run_process(command, place) if as_process else run_command(command, place, strong_check=strong_check)
        after = list_files(place)
        if not door.inputs and ended.exit_code not in REFUSALS:
            before |= {name: after[name] for name in list_replaced(command) & set(before) & set(after)}
        faults = judge_command(ended, before, after, keeps_folder=door.keeps_folder)
    finally:
        shutil.rmtree(place)
    return Verdict(number, door.name, command, ended, faults)


def copy_seeds(seeds: Path, place: Path, door: Door) -> None:
    """Copy what the words of a door's command name; a door whose options are damaged may name anything."""
    place.mkdir()
    words = {Path(word).parts[0] for word in (*door.command, *door.inputs) if word}
    for source in seeds.iterdir():
        if door.inputs and source.name not in words and source.name not in door.needs:
            continue
        copy = shutil.copytree if source.is_dir() else shutil.copyfile
        copy(source, place / source.name)


def needs_process(number: int) -> bool:
    """Tell whether a case is run as a process of its own."""
    return number % ONE_PROCESS_IN == 0 and choose_door(number).command[0] != "load-map"


def print_failure(verdict: Verdict) -> None:
    """Print a case that failed: what is wrong, how to repeat it, and what was shown."""
    words = " ".join(word if len(word) < 80 else f"{word[:40]}...({len(word)})" for word in verdict.command)
    shown = repr(verdict.ended.stderr[-600:])
    print(
        f"FAILED --case {verdict.number} [{verdict.door}] {', '.join(verdict.faults)}: {words!a}\n    {shown}",
        flush=True,
    )
