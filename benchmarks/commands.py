"""CPU seconds of the commands as people run them, and how they grow with the users, as Markdown.

    RECVEIL_DATA=... python benchmarks/commands.py [--users 1500 6040] [--data ml-1m]

Each command is a process of its own on 64-dimensional ALS vectors of the data set and gender, by `recveil train`; CPU
seconds are user and system time of the process and its children, imports included. The last line relates them to
`import torch, sklearn.ensemble`, without which no attacker runs.
"""

import argparse
import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from recveil.data.sources.catalog import load_dataset

ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}


def measure(*command: str, codes: tuple[int, ...] = (0,)) -> float:
    """Return the CPU seconds of a command, which must end with one of these codes."""
    before = os.times()
    done = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, check=False)
    after = os.times()
    if done.returncode not in codes:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}: {done.stderr}")
    return after.children_user + after.children_system - before.children_user - before.children_system


def write_tables(folder: Path, data: str, users: int) -> None:
    """Write the vectors, attributes and interactions of the first users; train the model if need be."""
    run = folder / "run"
    if not run.is_dir():
        measure(
            "recveil", "train", "--data", data, "--model", "als", "--option", "embedding_size=64", "--out", str(run)
        )
        known = load_dataset(data)
        names = {"user_id": known.user_ids[known.user], "item_id": known.item_ids[known.item]}
        pq.write_table(pa.table({**names, "timestamp": known.time}), folder / "interactions.parquet")
    vectors = pq.read_table(run / "users.parquet").slice(0, users)
    pq.write_table(vectors, folder / "users.parquet")
    interactions = pq.read_table(folder / "interactions.parquet")
    ids = pc.cast(vectors["user_id"], interactions["user_id"].type)
    pq.write_table(interactions.filter(pc.is_in(interactions["user_id"], ids)), folder / "some.parquet")


def list_commands(folder: Path) -> dict[str, list[str]]:
    """Return the arguments of the commands by what they are called in the table."""
    table = [
        str(folder / "users.parquet"),
        "--attributes",
        str(folder / "run/attributes.parquet"),
        "--target",
        "gender",
    ]
    report = ["--report", str(folder / "report.html")]
    cloak = ["cloak", *table, "--out", str(folder / "out.parquet"), "--allow-leak", *report]
    served = ["--item-embeddings", str(folder / "run/items.parquet"), "--interactions", str(folder / "some.parquet")]
    return {
        "audit": ["audit", *table],
        "audit --report": ["audit", *table, *report],
        "cloak --report": cloak,
        "cloak --report, with interactions": [*cloak, *served],
    }


def main() -> None:
    """Print one row for each command."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--users", nargs="+", type=int, default=[1_500, 6_040])
    parser.add_argument("--data", default="ml-1m")
    options = parser.parse_args()
    print(f"| command | {' | '.join(f'CPU s, {n:,} users' for n in options.users)} | growth |")
    print("| --- " * (len(options.users) + 2) + "|")
    for name, arguments, codes in (("--help", ["--help"], (0,)), ("wrong path", ["audit", "nowhere.parquet"], (3,))):
        seconds = measure("recveil", *arguments, codes=codes)
        print(f"| {name} | {' | '.join(f'{seconds:.2f}' for _ in options.users)} | |", flush=True)
    with tempfile.TemporaryDirectory() as name:
        folder, costs = Path(name), {}
        for users in options.users:
            write_tables(folder, options.data, users)
            for command, arguments in list_commands(folder).items():
                costs[command, users] = measure("recveil", *arguments)
        for command in list_commands(folder):
            row = [costs[command, users] for users in options.users]
            slope = (
                math.log(row[-1] / row[0]) / math.log(options.users[-1] / options.users[0]) if len(row) > 1 else np.nan
            )
            print(f"| {command} | {' | '.join(f'{seconds:.1f}' for seconds in row)} | users^{slope:.2f} |")
    imports = measure(sys.executable, "-c", "import torch, sklearn.ensemble")
    print(f"| import torch, sklearn.ensemble | {' | '.join(f'{imports:.1f}' for _ in options.users)} | |")


if __name__ == "__main__":
    main()
