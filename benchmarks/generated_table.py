"""Streaming over rows that are generated on the fly and dropped once they are carried: how cost grows beyond the disk.

    python benchmarks/generated_table.py [--rows 1000000 10000000 100000000] [--cores 2] [--folder DIR]

Every pass draws the same rows again, block by block, so neither the table nor the output is stored; on disk are the
hashes of the ids, 8 bytes for each row. `generate` is the cost of drawing the rows of both passes alone, and is part of
that of `gaussian`. Each size runs in a process of its own; imports are not counted.
"""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import argparse
import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
from scale import GROUP, PART, D, vectors

from recveil.defenses.embeddings.gaussian import Gaussian
from recveil.streaming.block_table import Block, Span, Table, TablePart, WriteBlock
from recveil.streaming.cloaked_table import cloak_table
from recveil.streaming.engines import ThreadEngine
from recveil.streaming.labels import AttributeSource

GENDERS = pa.array(["F", "M"])


class GeneratedTable(Table):
    """A table whose rows are drawn when they are read and forgotten when they are written."""

    def read_blocks(self, span: Span, columns: Sequence[str], *, vectors: bool = True) -> Iterator[Block]:
        for start in range(span.start, span.start + span.rows, self.block_rows):
            yield draw_block(start, min(self.block_rows, span.start + span.rows - start), vectors=vectors)

    @contextmanager
    def write_part(self, part: TablePart, out: Path, job: str, dropped: Sequence[str] = ()) -> Iterator[WriteBlock]:
        yield lambda batch, x: None


def draw_block(start: int, rows: int, *, vectors: bool) -> Block:
    """Draw the rows of one block; the classes come before the vectors, so that they can be had alone."""
    rng = np.random.default_rng(start)
    codes = rng.integers(0, 2, rows)
    gender = pa.DictionaryArray.from_arrays(pa.array(codes), GENDERS)
    batch = pa.record_batch({"user_id": pa.array(np.arange(start, start + rows)), "gender": gender})
    return Block(start, batch, draw_vectors(rng, codes) if vectors else np.empty((rows, 0), np.float32))


draw_vectors = vectors


def open_generated(folder: Path, rows: int) -> GeneratedTable:
    """Return the table; its parts are empty files, since a job is known by the names and times of its files."""
    folder.mkdir()
    parts = []
    for start in range(0, rows, PART):
        path = folder / f"part-{start // PART:04}.parquet"
        path.touch()
        size = min(PART, rows - start)
        groups = [min(GROUP, size - first) for first in range(0, size, GROUP)]
        parts.append(TablePart(path, start, tuple(groups)))
    schema = pa.schema({"user_id": pa.int64(), "gender": pa.string(), "embedding": pa.list_(pa.float32(), D)})
    return GeneratedTable(folder, tuple(parts), D, "user_id", ("embedding",), schema)


def generate(table: Table, cores: int) -> dict[str, object]:
    """Draw all rows as often as the two passes do."""

    class Drawing:
        def __call__(self, span: Span) -> int:
            return sum(len(block.x) for block in table.read_blocks(span, ()))

    for _ in range(2):
        ThreadEngine(cores).run_all(Drawing(), table.list_spans(), "drawing")
    return {}


def cloak(table: Table, cores: int, out: Path) -> dict[str, object]:
    """Run the streaming path of `recveil cloak`."""
    done = cloak_table(table, AttributeSource(None, ("gender",)), Gaussian(), out, engine=ThreadEngine(cores))
    return {"steps": done.seconds, "displacement": done.displacement}


def measure_child(task: str, rows: int, cores: int, folder: Path) -> None:
    """Run one measurement in a process of its own."""
    table = open_generated(folder / f"{task}{rows}", rows)
    start, used = time.perf_counter(), time.process_time()
    result = generate(table, cores) if task == "generate" else cloak(table, cores, folder / f"out{rows}")
    seconds, used = time.perf_counter() - start, time.process_time() - used
    peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    print(json.dumps({"seconds": seconds, "cpu": used, "peak": int(peak.split()[1]) / 2**20, **result}))


def measure(task: str, rows: int, cores: int, folder: Path) -> dict:
    """Measure a process that does only this."""
    command = [sys.executable, __file__, "--child", task, "--rows", str(rows), "--cores", str(cores)]
    done = subprocess.run([*command, "--folder", str(folder)], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def print_sizes(sizes: Sequence[int], cores: int, folder: Path) -> None:
    """Print one row for each size, and by which power of the rows time, CPU and memory grow."""
    print(f"\n{cores} cores, load {os.getloadavg()[0]:.1f} before the start\n")
    print("| rows | generate, CPU s | gaussian, CPU s | gaussian without generating | seconds | peak GiB | steps, s |")
    print("| --- " * 7 + "|", flush=True)
    costs: dict[int, dict] = {}
    for rows in sizes:
        drawn, ours = (measure(task, rows, cores, folder) for task in ("generate", "gaussian"))
        costs[rows] = {"seconds": ours["seconds"], "cpu": ours["cpu"], "net": ours["cpu"] - drawn["cpu"]}
        costs[rows]["peak"] = ours["peak"]
        steps = ", ".join(f"{name} {ours['steps'][name]:.1f}" for name in ("look", "learn", "write"))
        cells = [f"{drawn['cpu']:.1f}", f"{ours['cpu']:.1f}", f"{costs[rows]['net']:.1f}", f"{ours['seconds']:.1f}"]
        print(f"| {rows:,} | {' | '.join(cells)} | {ours['peak']:.2f} | {steps} |", flush=True)
        if len(costs) > 1:
            (a, first), *_ = costs.items()
            powers = [f"{n} rows^{math.log(costs[rows][n] / first[n]) / math.log(rows / a):.2f}" for n in first]
            print(f"<!-- from {a:,} to {rows:,}: {', '.join(powers)} -->", flush=True)


def main() -> None:
    """Print what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", nargs="+", type=int, default=[1_000_000, 10_000_000, 100_000_000])
    parser.add_argument("--cores", type=int, default=os.cpu_count())
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--child", choices=["generate", "gaussian"])
    options = parser.parse_args()
    if options.child:
        measure_child(options.child, options.rows[0], options.cores, options.folder)
        return
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        print_sizes(options.rows, options.cores, Path(name))


if __name__ == "__main__":
    main()
