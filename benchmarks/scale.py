"""Tables larger than memory: seconds, peak memory and what is left of a planted leak, as Markdown.

    python benchmarks/scale.py [--rows 2000000 20000000] [--part flow sliced equal] [--folder DIR] [--repeats 2]
        [--compression zstd] [--separate]

flow: `gaussian` against only reading and writing the same table with pyarrow, with the same writer options, each in a
process of its own, in turn; of each the fastest of the repeats, and the least CPU (imports are not counted, peak memory
is that of the whole process). sliced: 20 rounds on the largest table, audited on a sample before and after. equal:
streaming against in memory on a table that fits. Needs about 11 GB of disk for 20,000,000 rows. With `--separate` the
classes lie in a table of their own, in another order, and have to be joined; the vectors alone are copied then
(`--part flow`).
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

from recveil.audits.attribute.audit import audit_attribute
from recveil.audits.attribute.folds import CrossValidation
from recveil.core.random import make_generator
from recveil.defenses.embeddings.gaussian import Gaussian
from recveil.defenses.embeddings.leace import Leace
from recveil.defenses.embeddings.sliced import Sliced
from recveil.streaming.audit_sample import design_sample
from recveil.streaming.block_table import open_table
from recveil.streaming.cloaked_table import cloak_table
from recveil.streaming.labels import AttributeSource
from recveil.streaming.parquet_parts import copy_writer_options

D = 64
PART = 1_000_000
GROUP = 131_072


def vectors(rng: np.random.Generator, codes: np.ndarray) -> np.ndarray:
    """Draw vectors with a leak in a mean, in a variance and in the shape of one column: 50 % advantage and more."""
    x = rng.standard_normal((len(codes), D), dtype=np.float32)
    x[:, 0] += codes
    x[:, 1] *= 1 + codes
    x[:, 2] = np.where(codes == 1, np.abs(x[:, 2]), x[:, 2])
    return x


def find_attributes(source: Path) -> Path:
    """Return where the separate table of the classes is, if there is one."""
    return source.with_name(f"{source.name}-attributes.parquet")


def make(folder: Path, rows: int, compression: str = "none", *, separate: bool = False) -> None:
    """Write a folder of parts of a million rows; uncompressed is how embedding tables are commonly stored."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    options = {"compression": compression, "use_dictionary": ["gender"], "write_statistics": ["user_id", "gender"]}
    everybody = []
    for start in range(0, rows, PART):
        codes = rng.integers(0, 2, min(PART, rows - start))
        lists = pa.FixedSizeListArray.from_arrays(pa.array(vectors(rng, codes).reshape(-1)), D)
        labels = pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(["F", "M"])).cast(pa.string())
        ids = pa.array(np.arange(start, start + len(codes)))
        table = pa.table({"user_id": ids, "embedding": lists, "gender": labels})
        if separate:
            everybody.append(table.select(["user_id", "gender"]))
            table = table.drop_columns("gender")
        pq.write_table(table, folder / f"part-{start // PART:04}.parquet", row_group_size=GROUP, **options)
    if separate:
        joined = pa.concat_tables(everybody)
        pq.write_table(joined.take(pa.array(rng.permutation(rows))), find_attributes(folder), compression=compression)


def copy(source: Path, out: Path) -> dict:
    """Read every row group and write it: the yardstick."""
    out.mkdir()
    for file in sorted(source.iterdir()):
        with pq.ParquetFile(file) as given:
            options = copy_writer_options(given.metadata, ("embedding",))
            with pq.ParquetWriter(out / file.name, given.schema_arrow, **options) as writer:
                for group in range(given.num_row_groups):
                    writer.write_table(given.read_row_group(group))
    return {}


def cloak(method: str, source: Path, out: Path) -> dict:
    """Run the streaming path of `recveil cloak`."""
    made = {"gaussian": Gaussian, "sliced": lambda: Sliced(rounds=20)}[method]()
    separate = find_attributes(source)
    attributes = AttributeSource(separate if separate.is_file() else None, ("gender",))
    done = cloak_table(open_table(source), attributes, made, out)
    return {"steps": done.seconds, "displacement": done.displacement}


def child(what: str, source: Path, out: Path) -> None:
    """Run one measurement in a process of its own."""
    shutil.rmtree(out, ignore_errors=True)
    start, used = time.perf_counter(), time.process_time()
    told = copy(source, out) if what == "copy" else cloak(what, source, out)
    seconds, used = time.perf_counter() - start, time.process_time() - used
    # Not ru_maxrss, which a process takes over from the one that started it.
    peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    print(json.dumps({"seconds": seconds, "cpu": used, "peak": int(peak.split()[1]) / 2**20, **told}))


def measured(what: str, source: Path, out: Path) -> dict:
    """Measure a process that does only this."""
    command = [sys.executable, __file__, "--child", what, str(source), str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def flow(folder: Path, sizes: list[int], repeats: int, compression: str, *, separate: bool) -> None:
    """Print seconds and peak memory against the yardstick, by the number of rows."""
    print("\n| rows | read and write, s | gaussian, s | ratio | CPU s, both | peak GiB, both | look, learn, write, s |")
    print("| --- " * 7 + "|")
    times = {}
    for rows in sizes:
        source, out = folder / f"in{rows}", folder / "out"
        if not source.is_dir():
            make(source, rows, compression, separate=separate)
        pairs = [(measured("copy", source, out), measured("gaussian", source, out)) for _ in range(repeats)]
        only, ours = (min(runs, key=lambda r: r["seconds"]) for runs in zip(*pairs, strict=True))
        times[rows] = ours
        steps = ", ".join(f"{ours['steps'][name]:.1f}" for name in ("look", "learn", "write"))
        each = ", ".join(f"{b['seconds'] / a['seconds']:.2f}" for a, b in pairs)
        ratio = f"{ours['seconds'] / only['seconds']:.2f} (each pair: {each})"
        peak = f"{only['peak']:.2f}, {ours['peak']:.2f}"
        used = [min(run["cpu"] for run in runs) for runs in zip(*pairs, strict=True)]
        cpu = f"{used[0]:.2f}, {used[1]:.2f} ({used[1] / used[0]:.2f} times)"
        ours["cpu"] = used[1]
        both = f"{only['seconds']:.1f} | {ours['seconds']:.1f}"
        print(f"| {rows:,} | {both} | {ratio} | {cpu} | {peak} | {steps} |", flush=True)
    if len(sizes) > 1:
        (a, first), *_, (b, last) = times.items()
        growth = {name: math.log(last[name] / first[name]) / math.log(b / a) for name in ("seconds", "cpu")}
        print(
            f"\ntime grows as rows^{growth['seconds']:.2f}, CPU as rows^{growth['cpu']:.2f}; "
            f"peak memory {first['peak']:.2f} -> {last['peak']:.2f} GiB"
        )
    cluster(max(times), times[max(times)])


def cluster(rows: int, found: dict) -> None:
    """Print the time of 10^9 x 128 on 16 machines of 16 cores, from the rates of this machine."""
    rate = rows * D / found["cpu"]
    cores, size = 16 * 16, 1e9 * 128
    moved = 3 * size * 4 / 16 / 1e9
    seconds = size / rate / cores
    print(
        f"\n{rate / 1e6:.0f} million numbers a second and core: 10^9 x 128 takes {seconds:.0f} s on 256 cores, if "
        f"each of the 16 machines moves its {moved:.0f} GB (two reads, one write) at {moved / seconds:.1f} GB/s."
    )


def sliced(folder: Path, rows: int) -> None:
    """Run 20 rounds on the large table, and audit a sample before and after."""
    source, out = folder / f"in{rows}", folder / "out"
    if not source.is_dir():
        make(source, rows)
    found = measured("sliced", source, out)
    steps = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in found["steps"].items())
    print(
        f"\nsliced, 20 rounds, {rows:,} x {D}: {found['seconds']:.0f} s ({found['cpu']:.0f} s of CPU), 2 passes over "
        f"the vectors ({steps}), peak {found['peak']:.2f} GiB, displacement {found['displacement']:.3f}",
        flush=True,
    )
    which = design_sample(
        open_table(source), AttributeSource(None, ("gender",)), CrossValidation(), 0.05, seed=0, engine=None
    )
    drawn = which.draw_users(open_table(source))
    for name, x in (("before", drawn.x), ("after", drawn.read_vectors(open_table(out)))):
        told = audit_attribute(x, drawn.targets[0], rules=CrossValidation())
        a = told.headline.advantage
        print(
            f"{name}: advantage {a.value:.3f} [{a.low:.3f}, {a.high:.3f}], {told.n:,} users, {told.verdict}", flush=True
        )


def equal(folder: Path, rows: int = 200_000) -> None:
    """Return the largest difference between streaming and in memory, as a share of the spread."""
    source, out = folder / f"in{rows}", folder / "out"
    make(source, rows)
    given = pq.read_table(source)
    x = given.column("embedding").combine_chunks().flatten().to_numpy().reshape(-1, D)
    codes = (given.column("gender").to_numpy() == "M").astype(np.int64)
    for method in (Gaussian(device="cpu"), Leace(device="cpu")):
        shutil.rmtree(out, ignore_errors=True)
        cloak_table(open_table(source), AttributeSource(None, ("gender",)), method, out)
        got = pq.read_table(out).column("embedding").combine_chunks().flatten().to_numpy().reshape(-1, D)
        apart = np.abs(got - method(x, codes, rng=make_generator(0, "cloak"))).max() / x.std()
        print(f"{type(method).__name__.lower()}: streaming and in memory differ by {apart:.1e} of the spread at most")


def main() -> None:
    """Print what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", nargs="+", type=int, default=[2_000_000, 20_000_000])
    parser.add_argument("--part", nargs="+", default=["equal", "flow", "sliced"])
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--compression", default="none")
    parser.add_argument("--separate", action="store_true")
    parser.add_argument("--child", nargs=3)
    options = parser.parse_args()
    if options.child:
        what, source, out = options.child
        child(what, Path(source), Path(out))
        return
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} before the start")
        if "equal" in options.part:
            equal(folder)
        if "flow" in options.part:
            flow(folder, options.rows, options.repeats, options.compression, separate=options.separate)
        if "sliced" in options.part:
            sliced(folder, max(options.rows))


if __name__ == "__main__":
    main()
