"""Kills: commands ended by signals at random moments leave whole files or none, and repeated give the same bytes."""

from __future__ import annotations

import shutil
import signal
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from campaign.judge import list_files
from campaign.processes import MAX_WAIT_SECONDS
from campaign.seeds import SMALL_MODEL, write_seeds
from campaign.warm_processes import start_warm_process

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGKILL)
TABLE = ("--embeddings", "large.parquet", "--attributes", "large-attributes.parquet", "--target", "gender")
AUDIT = ("audit", *TABLE, "--panel", "logistic", "--repeats", "1", "--max-repeats", "1", "--device", "cpu", "--quiet")


@dataclass(frozen=True)
class Job:
    """A command that is killed, and the file or folder that it writes."""

    command: tuple[str, ...]
    output: str


CLOAK = ("cloak", *TABLE, "--method", "gaussian", "--allow-leak", "--device", "cpu", "--quiet", "--out", "out.parquet")
JOBS = {
    "cloak": Job(CLOAK, "out.parquet"),
    "cloak, streaming": Job((*CLOAK, "--stream"), "out.parquet"),
    "audit": Job((*AUDIT, "--risk-out", "risk.parquet"), "risk.parquet"),
    "train": Job(("train", "--data", "tiny", "--out", "trained", *SMALL_MODEL, "--k", "5", "--quiet"), "trained"),
    "study": Job(("study", "run", "plan.toml", "--out", "new", "--workers", "1", "--quiet"), "new"),
}
"""Commands that are killed in turn; a job of another command is a line here."""
TIMES = ("timings", "lock", "metrics.json", "failures")
"""Files of results that hold seconds, or nothing."""


@dataclass
class Fresh:
    """A command that was not killed: what it wrote, and how long it took."""

    files: dict[str, str]
    seconds: float


def run_kills(count: int, seed: int) -> int:
    """Kill commands at random moments, print counts, and return the number of failures."""
    rng, failures, hits = np.random.default_rng([seed, 1]), 0, Counter[str]()
    with tempfile.TemporaryDirectory() as name:
        seeds = Path(name) / "seeds"
        seeds.mkdir()
        write_seeds(seeds)
        _write_large_table(seeds)
        fresh = {job: _run_whole(job, seeds, Path(name) / "fresh") for job in JOBS}
        for number in range(count):
            job = list(JOBS)[number % len(JOBS)]
            place = Path(name) / "case"
            shutil.copytree(seeds, place)
            hit, faults = kill_once(job, place, fresh[job], rng)
            shutil.rmtree(place)
            hits[job] += hit
            failures += bool(faults)
            outcome = f"FAILED, {', '.join(faults)}" if faults else "whole, and the same bytes again"
            print(f"kill {number} [{job}] {'hit' if hit else 'too late'}: {outcome}", flush=True)
    by_job = ", ".join(f"{job} {hits[job]}" for job in JOBS)
    print(f"kills: {count}, of which {hits.total()} came before the end of the command ({by_job}); {failures} failed")
    return failures


def kill_once(job: str, place: Path, fresh: Fresh, rng: np.random.Generator) -> tuple[bool, list[str]]:
    """Kill a command at a random moment, look at what is left, and run it again; return whether it was hit, and faults.

    What a SIGKILL leaves hidden, which nobody can clean up, is cleaned up by the command that is run again.
    """
    before = list_files(place)
    number = SIGNALS[rng.integers(len(SIGNALS))]
    process = start_warm_process(JOBS[job].command, place)
    if not process.wait(float(rng.uniform(0.02, 1.0) * fresh.seconds)):
        process.send_signal(number)
        if not process.wait(MAX_WAIT_SECONDS):
            process.send_signal(signal.SIGKILL)
            return True, [f"the command did not end after {number.name}"]
    hit = process.exit_code not in (0, 1)
    after = list_files(place)
    faults = [f"{name} was changed" for name in before if after.get(name) != before[name]]
    whole = {name: content for name, content in _keep_results(after, JOBS[job].output).items() if name in fresh.files}
    faults += [f"{name} is not whole" for name, content in whole.items() if content != fresh.files[name]]
    hidden = [name for name in after if name not in before and Path(name).name.startswith(".")]
    if number != signal.SIGKILL and hidden:
        faults += [f"{name} was left by {number.name}" for name in hidden]
    again = start_warm_process(JOBS[job].command, place)
    if not again.wait(MAX_WAIT_SECONDS) or again.exit_code not in (0, 1):
        faults.append(f"the repeated command does not end well: {again.read_errors()[-200:]}")
    elif _keep_results(list_files(place), JOBS[job].output) != fresh.files:
        faults.append("the repeated command gives other bytes")
    return hit, faults


def _run_whole(job: str, seeds: Path, place: Path) -> Fresh:
    shutil.copytree(seeds, place)
    process = start_warm_process(JOBS[job].command, place)
    if not process.wait(MAX_WAIT_SECONDS) or process.exit_code not in (0, 1):
        raise RuntimeError(f"{job} does not run: {process.read_errors()}")
    seconds, files = process.seconds, _keep_results(list_files(place), JOBS[job].output)
    shutil.rmtree(place)
    return Fresh(files, seconds)


def _keep_results(files: dict[str, str], output: str) -> dict[str, str]:
    """Keep what the command writes and what is the same in every run; times are not."""
    own = {name: content for name, content in files.items() if Path(name).parts[0] == output}
    return {name: content for name, content in own.items() if not set(Path(name).parts) & set(TIMES)}


def _write_large_table(folder: Path) -> None:
    """Write a table that takes long enough to be hit."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(3)
    codes = rng.integers(2, size=240)
    vectors = (rng.standard_normal((240, 8)) + codes[:, None]).astype(np.float32)
    values = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), 8)
    pq.write_table(pa.table({"user_id": np.arange(240), "embedding": values}), folder / "large.parquet")
    gender = np.array(["F", "M"])[codes]
    pq.write_table(pa.table({"user_id": np.arange(240), "gender": gender}), folder / "large-attributes.parquet")
