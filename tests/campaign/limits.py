"""Limits: a full disk, closed folders, capped memory, many targets, many dimensions, quadratic methods."""

from __future__ import annotations

import ctypes
import os
import resource
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from campaign.judge import judge_command, list_files
from campaign.processes import run_process
from campaign.seeds import SMALL_MODEL, write_seeds

GIB = 1 << 30
PR_CAPBSET_DROP = 24
QUICK = ("--panel", "logistic", "--folds", "2", "--repeats", "1", "--max-repeats", "1", "--device", "cpu", "--quiet")


@dataclass(frozen=True)
class Limit:
    """A command under a limit: what is done before, and which exit codes are right."""

    name: str
    command: tuple[str, ...]
    exit_codes: tuple[int, ...]
    prepare: Callable[[], None] | None = None
    make_files: Callable[[Path], None] | None = None


def run_limits() -> int:
    """Run each command under its limit, print what happens, and return the number of failures."""
    failures = 0
    with tempfile.TemporaryDirectory() as name:
        for limit in LIMITS:
            place = Path(name) / "case"
            place.mkdir()
            write_seeds(place)
            if limit.make_files is not None:
                limit.make_files(place)
            before = list_files(place)
            ended = run_process(limit.command, place, prepare=limit.prepare)
            (place / "closed").chmod(0o700) if (place / "closed").is_dir() else None
            faults = [fault for fault in judge_command(ended, before, list_files(place), keeps_folder=False)
                      if fault != "slow"]  # fmt: skip
            if ended.exit_code not in limit.exit_codes:
                faults.append(f"exit {ended.exit_code} in place of {limit.exit_codes}")
            failures += bool(faults)
            print(f"{'FAILED' if faults else 'ok':8}{limit.name}: exit {ended.exit_code}, {ended.seconds:.0f} s of "
                  f"processor time {faults or ''} {ended.stderr.strip()[-300:]}", flush=True)  # fmt: skip
            shutil.rmtree(place)
    print(f"limits: {len(LIMITS)}, {failures} failed")
    return failures


def write_table(path: Path, n: int, d: int, **classes: int) -> None:
    """Write a table with user ids, vectors and columns of so many classes each."""
    rng = np.random.default_rng(0)
    values = pa.FixedSizeListArray.from_arrays(pa.array(rng.standard_normal(n * d, dtype=np.float32)), d)
    columns = {name: np.char.add("c", rng.integers(k, size=n).astype(str)) for name, k in classes.items()}
    pq.write_table(pa.table({"user_id": np.arange(n), "embedding": values, **columns}), path)


def _cap_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (4 * GIB, 4 * GIB))


def _cap_files() -> None:
    """Let no file grow beyond a kilobyte, as on a full disk; the signal of it is ignored, so that writing fails."""
    import signal

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, 1_000))


def _obey_permissions() -> None:
    """Take from root the capabilities to write and read whatever it likes; they are gone after exec."""
    if os.getuid() == 0:
        library = ctypes.CDLL(None)
        for capability in (1, 2, 3):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_FOWNER
            library.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)


def _close_folder(place: Path) -> None:
    (place / "closed").mkdir(mode=0o555)


def _use(classes: int, n: int = 200_000, d: int = 64) -> Callable[[Path], None]:
    return lambda place: write_table(place / "big.parquet", n, d, gender=classes)


SMALL = ("--embeddings", "users.parquet", "--attributes", "attributes.csv", "--target", "gender")
BIG = ("--embeddings", "big.parquet", "--attributes", "big.parquet", "--target", "gender")
CLOAK = ("cloak", *SMALL, "--method", "gaussian", "--allow-leak", *QUICK)
TWENTY_ONE = ",".join(f"t{i}" for i in range(21))
LIMITS = (
    Limit("disk full, cloak to Parquet", (*CLOAK, "--out", "o.parquet"), (3,), _cap_files),
    Limit("disk full, cloak to safetensors", (*CLOAK[:1], "--embeddings", "users.safetensors", *CLOAK[3:], "--out",
          "o.safetensors"), (3,), _cap_files),
    Limit("disk full, cloak streaming", (*CLOAK, "--stream", "--out", "o.parquet"), (3,), _cap_files),
    Limit("disk full, audit", ("audit", *SMALL, *QUICK, "--out", "o.json", "--risk-out", "r.parquet"), (3,),
          _cap_files),
    Limit("disk full, train", ("train", "--data", "tiny", "--out", "t", *SMALL_MODEL, "--k", "5", "--quiet"), (3,),
          _cap_files),
    Limit("read-only folder, cloak", (*CLOAK, "--out", "closed/o.parquet"), (2, 3), _obey_permissions, _close_folder),
    Limit("read-only folder, audit", ("audit", *SMALL, *QUICK, "--out", "closed/o.json"), (2, 3), _obey_permissions,
          _close_folder),
    Limit("read-only folder, train", ("train", "--data", "tiny", "--out", "closed/t", *SMALL_MODEL, "--quiet"), (2, 3),
          _obey_permissions, _close_folder),
    Limit("4 GiB, audit of 200,000 x 64, 2 classes", ("audit", *BIG, *QUICK), (0, 3), _cap_memory, _use(2)),
    Limit("4 GiB, audit of 200,000 x 64, 50 classes", ("audit", *BIG, *QUICK), (0, 3), _cap_memory, _use(50)),
    Limit("4 GiB, cloak of 200,000 x 64, 2 classes", ("cloak", *BIG, "--method", "gaussian", "--stream", "--allow-leak",
          *QUICK, "--out", "o.parquet"), (0, 3), _cap_memory, _use(2)),
    Limit("4 GiB, cloak of 200,000 x 64, 50 classes", ("cloak", *BIG, "--method", "gaussian", "--stream",
          "--allow-leak", *QUICK, "--out", "o.parquet"), (0, 3), _cap_memory, _use(50)),
    Limit("21 targets at once", ("cloak", "--embeddings", "big.parquet", "--attributes", "big.parquet", "--target",
          TWENTY_ONE, "--method", "gaussian", "--allow-leak", *QUICK, "--out", "o.parquet"), (0, 2, 3), None,
          lambda place: write_table(place / "big.parquet", 2_000, 8, **{f"t{i}": 2 for i in range(21)})),
    Limit("5,000 dimensions", ("cloak", *BIG, "--method", "sliced", "--allow-leak", *QUICK, "--out", "o.parquet"),
          (0, 2, 3), None, _use(2, n=400, d=5_000)),
    Limit("quadratic method on 100,000 users", ("cloak", *BIG, "--method", "d2d", *QUICK, "--out", "o.parquet"),
          (2, 3), None, _use(2, n=100_000, d=8)),
    Limit("u2u on 100,000 users", ("cloak", *BIG, "--method", "u2u", *QUICK, "--out", "o.parquet"), (1, 2, 3), None,
          _use(2, n=100_000, d=8)),
)  # fmt: skip
