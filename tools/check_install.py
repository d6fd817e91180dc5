"""Check an installed recveil with nothing but its base packages: the commands that people try first, with charts.

Run it with the Python of a fresh environment in which recveil is installed without extras (`make install-test`).
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import recveil

QUICK = ("--panel", "logistic", "--repeats", "1", "--max-repeats", "1")
N_SIZES = 5


def main() -> None:
    """Print the size of the install and the CPU seconds of each command; the first that fails ends the program."""
    place = Path(recveil.__file__)
    assert "site-packages" in place.parts, f"{place} is not an installed package"
    print_sizes(place.parents[1])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_table(folder / "users.parquet")
        audit = ("audit", "users.parquet", "--target", "gender", *QUICK, "--report", "audit.html", "--json")
        cloak = ("cloak", "users.parquet", "--target", "gender", *QUICK, "--out", "safe.parquet", "--report", "c.html")
        run_command(folder, "doctor")
        run_command(folder, *audit)
        run_command(folder, *cloak, "--method", "gaussian", "--allow-leak")
        run_command(folder, "demo", "--out", "demo")
        for page in ("audit.html", "c.html", "demo/report.html"):
            assert "<svg" in (folder / page).read_text(), f"{page} has no chart"


def print_sizes(packages: Path) -> None:
    """Print the megabytes of all packages, and of the largest of them."""
    sizes = {entry.name: measure_bytes(entry) for entry in packages.iterdir()}
    largest = sorted(sizes, key=sizes.__getitem__, reverse=True)[:N_SIZES]
    shown = ", ".join(f"{name} {sizes[name] / 1e6:,.0f}" for name in largest)
    print(f"{sum(sizes.values()) / 1e6:,.0f} MB installed, of it {shown}")


def measure_bytes(entry: Path) -> int:
    """Return the bytes of a file, or of all files under a folder."""
    files = entry.rglob("*") if entry.is_dir() else [entry]
    return sum(path.stat().st_size for path in files if path.is_file())


def write_table(path: Path) -> None:
    """Write a table in which one attribute leaks."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 2, 300)
    x = (rng.standard_normal((300, 8)) + codes[:, None]).astype(np.float32)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(x.ravel()), 8)
    pq.write_table(pa.table({"user_id": rng.permutation(300), "embedding": vectors, "gender": codes.astype(str)}), path)


def run_command(folder: Path, *args: str) -> None:
    """Run a command of recveil and print its processor time, which other programs on the machine change less."""
    start = sum(os.times()[2:4])
    command = [sys.executable, "-m", "recveil", *args]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"recveil {' '.join(args)}: exit {done.returncode}\n{done.stderr}"
    print(f"{sum(os.times()[2:4]) - start:6.1f} CPU s  recveil {' '.join(args)}")


if __name__ == "__main__":
    main()
