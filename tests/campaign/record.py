"""A record of the cases that were run: one line each, so that runs in parts and on several machines add up."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from campaign.cases import Verdict, print_failure
from campaign.doors import DOORS


@dataclass
class Tally:
    """Counts by door and exit code, and the cases that failed; each case is also written to the record."""

    record: Path | None = None
    commit: str = ""
    counts: Counter[tuple[str, int]] = field(default_factory=Counter)
    failures: list[tuple[int, str]] = field(default_factory=list)
    slowest: tuple[float, int] = (0.0, -1)

    def add(self, verdict: Verdict) -> None:
        """Count a verdict, write it to the record and print it if it failed."""
        ended = verdict.ended
        self._count(verdict.number, verdict.door, ended.exit_code, verdict.faults, ended.seconds)
        if verdict.faults:
            print_failure(verdict)
        if self.record is not None:
            line = {"case": verdict.number, "door": verdict.door, "exit": ended.exit_code, "faults": verdict.faults,
                    "seconds": round(ended.seconds, 3), "commit": self.commit}  # fmt: skip
            with self.record.open("a") as file:
                file.write(json.dumps(line) + "\n")

    def add_lines(self, path: Path) -> None:
        """Count the cases of a record."""
        for line in read_lines(path):
            self._count(line["case"], line["door"], line["exit"], line["faults"], line["seconds"])

    def _count(self, number: int, door: str, exit_code: int, faults: list[str], seconds: float) -> None:
        self.counts[door, exit_code] += 1
        self.slowest = max(self.slowest, (seconds, number))
        if faults:
            self.failures.append((number, door))

    def print_counts(self) -> None:
        """Print counts by door and exit code, and the number of failures."""
        codes = sorted({code for _, code in self.counts})
        failed = Counter(door for _, door in self.failures)
        print(f"{'door':32}{''.join(f'{code:>7}' for code in codes)}{'failed':>8}")
        for name in (door.name for door in DOORS):
            counts = [self.counts[name, code] for code in codes]
            if any(counts):
                print(f"{name:32}{''.join(f'{count:>7}' for count in counts)}{failed[name]:>8}")
        totals = [sum(count for (_, other), count in self.counts.items() if other == code) for code in codes]
        print(f"{'all: ' + str(sum(totals)):32}{''.join(f'{count:>7}' for count in totals)}{len(self.failures):>8}")
        print(f"slowest: {self.slowest[0]:.1f} s of processor time, --case {self.slowest[1]}")


def read_lines(path: Path) -> list[dict]:
    """Read a record; the last line of a case counts, so that a case that was run again is counted once."""
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return list({line["case"]: line for line in lines}.values())


def list_passed(path: Path, commit: str) -> set[int]:
    """List the cases of a record that passed on this commit."""
    return {line["case"] for line in read_lines(path) if line["commit"] == commit and not line["faults"]}


def name_commit() -> str:
    """Name the commit of the source that is run; `+` marks changes that are in no commit."""
    here = Path(__file__).parents[2]
    try:
        words = ("git", "-C", str(here), "describe", "--always", "--exclude=*", "--dirty=+", "--abbrev=7")
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        stored = here / "COMMIT"
        return stored.read_text().strip() if stored.exists() else "unknown"
