"""Kills: commands ended by signals at random moments leave whole files or none, and repeated give the same bytes."""

from __future__ import annotations

import shutil
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from campaign.judge import list_files
from campaign.processes import MAX_WAIT_SECONDS, start_process
from campaign.seeds import SMALL_MODEL, write_seeds

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGKILL)
TABLE = ("--embeddings", "large.parquet", "--attributes", "large-attributes.parquet", "--target", "gender")
AUDIT = ("audit", *TABLE, "--panel", "logistic", "--repeats", "1", "--max-repeats", "1", "--device", "cpu", "--quiet")
JOBS: dict[str, tuple[tuple[str, ...], str]] = {
    "cloak": (("cloak", *TABLE, "--method", "gaussian", "--allow-leak", "--device", "cpu", "--quiet", "--out",
               "out.parquet"), "out.parquet"),
    "cloak, streaming": (("cloak", "--stream", *TABLE, "--method", "gaussian", "--allow-leak", "--device", "cpu",
                          "--quiet", "--out", "out.parquet"), "out.parquet"),
    "audit": ((*AUDIT, "--risk-out", "risk.parquet"), "risk.parquet"),
    "train": (("train", "--data", "tiny", "--out", "trained", *SMALL_MODEL, "--k", "5", "--quiet"), "trained"),
    "study": (("study", "run", "plan.toml", "--out", "new", "--workers", "1", "--quiet"), "new"),
}  # fmt: skip
"""Commands that are killed, and what each of them writes."""
TIMES = ("timings", "lock", "metrics.json", "failures")
"""Files of results that hold seconds, or nothing."""


@dataclass
class Fresh:
    """A command that was not killed: what it wrote, and how long it took."""

    files: dict[str, str]
    seconds: float


def run_kills(count: int, seed: int) -> int:
    """Kill commands at random moments, print counts, and return the number of failures."""
    rng, failures, hits = np.random.default_rng([seed, 1]), 0, 0
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
            hits += hit
            failures += bool(faults)
            outcome = f"FAILED, {', '.join(faults)}" if faults else "whole, and the same bytes again"
            print(f"kill {number} [{job}] {'hit' if hit else 'too late'}: {outcome}", flush=True)
    print(f"kills: {count}, of which {hits} came before the end of the command; {failures} failed")
    return failures


def kill_once(job: str, place: Path, fresh: Fresh, rng: np.random.Generator) -> tuple[bool, list[str]]:
    """Kill a command at a random moment, look at what is left, and run it again; return whether it was hit, and faults.

    What a SIGKILL leaves hidden, which nobody can clean up, is cleaned up by the command that is run again.
    """
    before = list_files(place)
    number = SIGNALS[rng.integers(len(SIGNALS))]
    process = start_process(JOBS[job][0], place)
    try:
        process.communicate(timeout=float(rng.uniform(0.1, 1.0) * fresh.seconds))
    except subprocess.TimeoutExpired:
        process.send_signal(number)
        process.communicate(timeout=MAX_WAIT_SECONDS)
    hit = process.returncode not in (0, 1)
    after = list_files(place)
    faults = [f"{name} was changed" for name in before if after.get(name) != before[name]]
    whole = {name: content for name, content in _keep_results(after, JOBS[job][1]).items() if name in fresh.files}
    faults += [f"{name} is not whole" for name, content in whole.items() if content != fresh.files[name]]
    hidden = [name for name in after if name not in before and Path(name).name.startswith(".")]
    if number != signal.SIGKILL and hidden:
        faults += [f"{name} was left by {signal.Signals(number).name}" for name in hidden]
    again = start_process(JOBS[job][0], place)
    _, errors = again.communicate(timeout=MAX_WAIT_SECONDS)
    if again.returncode not in (0, 1):
        faults.append(f"the repeated command exits {again.returncode}: {errors.decode()[-200:]}")
    elif _keep_results(list_files(place), JOBS[job][1]) != fresh.files:
        faults.append("the repeated command gives other bytes")
    return hit, faults


def _run_whole(job: str, seeds: Path, place: Path) -> Fresh:
    shutil.copytree(seeds, place)
    start = time.monotonic()
    process = start_process(JOBS[job][0], place)
    _, errors = process.communicate(timeout=MAX_WAIT_SECONDS)
    if process.returncode not in (0, 1):
        raise RuntimeError(f"{job} does not run: {errors.decode()}")
    files = _keep_results(list_files(place), JOBS[job][1])
    shutil.rmtree(place)
    return Fresh(files, time.monotonic() - start)


def _keep_results(files: dict[str, str], output: str) -> dict[str, str]:
    """Keep what the command writes and what is the same in every run; times are not."""
    own = {name: content for name, content in files.items() if Path(name).parts[0] == output}
    return {name: content for name, content in own.items() if not set(Path(name).parts) & set(TIMES)}


def _write_large_table(folder: Path) -> None:
    """Write a table that takes long enough to be hit."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(3)
    codes = rng.integers(2, size=800)
    vectors = (rng.standard_normal((800, 8)) + codes[:, None]).astype(np.float32)
    values = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), 8)
    pq.write_table(pa.table({"user_id": np.arange(800), "embedding": values}), folder / "large.parquet")
    gender = np.array(["F", "M"])[codes]
    pq.write_table(pa.table({"user_id": np.arange(800), "gender": gender}), folder / "large-attributes.parquet")
