"""`recveil apply` of a `labelfree` map to tables larger than memory, against copying them by pyarrow.

    python benchmarks/apply_scale.py [--rows 1000000 4000000] [--compression zstd] [--repeats 3] [--folder DIR]

The map is fitted on 6,040 users, half of whom disclose. Each measurement runs in a process of its own, in turn; of each
the least CPU counts. Imports are not counted.
"""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import argparse
import json
import math
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scale import D, copy, make, vectors

from recveil.workflows.apply import apply_files
from recveil.workflows.inputs import InputFiles
from recveil.workflows.saved_maps import ApplyRequest

FIT_USERS = 6_040


def fit_map(folder: Path) -> Path:
    """Fit the map by the command, and return its file."""
    rng = np.random.default_rng(5)
    codes = rng.integers(0, 2, FIT_USERS)
    gender = np.where(rng.random(FIT_USERS) < 0.5, None, np.array(["F", "M"], dtype=object)[codes])
    lists = pa.FixedSizeListArray.from_arrays(pa.array(vectors(rng, codes).reshape(-1)), D)
    users = {"user_id": np.arange(FIT_USERS), "embedding": lists, "gender": pa.array(gender.tolist())}
    pq.write_table(pa.table(users), folder / "fit.parquet")
    command = [sys.executable, "-m", "recveil", "cloak", "--embeddings", str(folder / "fit.parquet")]
    command += ["--target", "gender", "--method", "labelfree", "--allow-leak"]
    command += ["--save-map", str(folder / "fit.map"), "--out", str(folder / "fit-out.parquet")]
    subprocess.run(command, capture_output=True, check=True)
    return folder / "fit.map"


def measure_child(task: str, source: Path, out: Path, map_path: Path) -> None:
    """Run one measurement in a process of its own."""
    shutil.rmtree(out, ignore_errors=True)
    start, used = time.perf_counter(), time.process_time()
    if task == "copy":
        copy(source, out)
    else:
        apply_files(map_path, InputFiles(embeddings=source), ApplyRequest(out=out))
    seconds, used = time.perf_counter() - start, time.process_time() - used
    peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    print(json.dumps({"seconds": seconds, "cpu": used, "peak": int(peak.split()[1]) / 2**20}))


def measure(task: str, source: Path, out: Path, map_path: Path) -> dict:
    """Measure a process that does only this."""
    command = [sys.executable, __file__, "--child", task, str(source), str(out), str(map_path)]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def print_sizes(sizes: list[int], compression: str, repeats: int, folder: Path) -> None:
    """Print one row for each size, and by which power of the rows CPU grows."""
    map_path = fit_map(folder)
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} before the start\n")
    print(f"| rows x {D}, {compression} | copy, CPU s | apply, CPU s | ratio | copy, apply, s | peak GiB |")
    print("| --- " * 6 + "|", flush=True)
    used = {}
    for rows in sizes:
        source = folder / f"in{rows}"
        make(source, rows, compression, separate=True)
        tasks = ("copy", "apply")
        runs = [[measure(task, source, folder / "out", map_path) for task in tasks] for _ in range(repeats)]
        copied, applied = (min(each, key=lambda run: run["cpu"]) for each in zip(*runs, strict=True))
        used[rows] = applied["cpu"]
        cpu = f"{copied['cpu']:.2f} | {applied['cpu']:.2f} | {applied['cpu'] / copied['cpu']:.2f}"
        seconds = f"{copied['seconds']:.1f}, {applied['seconds']:.1f}"
        print(f"| {rows:,} | {cpu} | {seconds} | {applied['peak']:.2f} |", flush=True)
    if len(used) > 1:
        (a, first), *_, (b, last) = used.items()
        print(f"\nCPU grows as rows^{math.log(last / first) / math.log(b / a):.2f}")


def main() -> None:
    """Print what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", nargs="+", type=int, default=[1_000_000, 4_000_000])
    parser.add_argument("--compression", default="zstd")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--child", nargs=4)
    options = parser.parse_args()
    if options.child:
        task, *paths = options.child
        measure_child(task, *map(Path, paths))
        return
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        print_sizes(options.rows, options.compression, options.repeats, Path(name))


if __name__ == "__main__":
    main()
