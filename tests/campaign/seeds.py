"""Valid inputs of every command, as small as the commands take; the campaign breaks copies of them."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from safetensors.numpy import save_file

N_USERS, N_ITEMS, N_DIMENSIONS = 60, 40, 4
SMALL_MODEL = ("--option", "epochs=1", "--option", "embedding_size=4", "--device", "cpu")

PLAN = """
title = "A small study"
kind = "attribute"
[grid]
data = ["tiny"]
model = [{ name = "bprmf", epochs = 1, embedding_size = 4 }]
defense = ["none", "gaussian"]
target = ["gender"]
panel = ["logistic"]
leak_ratio = [0.5]
seed = [0]
[settings]
device = "cpu"
folds = 2
[smoke]
defense = ["none"]
"""


def write_seeds(folder: Path) -> None:
    """Write all inputs that need no command of recveil: tables, attributes, lists, plans, archives."""
    rng = np.random.default_rng(0)
    _write_tables(folder, rng)
    _write_data(folder / "tiny", rng)
    _write_membership_files(folder, rng)
    (folder / "plan.toml").write_text(PLAN)
    with zipfile.ZipFile(folder / "ml-1m.zip", "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("ml-1m/ratings.dat", "".join(f"{u}::{u % 7 + 1}::5::{u}\n" for u in range(1, 50)))
        packed.writestr("ml-1m/users.dat", "".join(f"{u}::{'FM'[u % 2]}::25::3::12345\n" for u in range(1, 50)))
        packed.writestr("ml-1m/movies.dat", "".join(f"{i}::Film {i}::Drama\n" for i in range(1, 9)))


def write_results(folder: Path) -> None:
    """Write inputs that recveil makes itself: a run, a study, a baseline and a fitted map."""
    from campaign.worker import run_command

    table = ("--embeddings", "users.parquet", "--attributes", "attributes.csv", "--target", "gender")
    quick = ("--panel", "logistic", "--folds", "2", "--repeats", "1", "--max-repeats", "1", "--quiet")
    commands = (
        ("train", "--data", "tiny", "--out", "run", *SMALL_MODEL, "--k", "5", "--quiet"),
        ("study", "run", "plan.toml", "--out", "study", "--workers", "1", "--quiet"),
        ("audit", *table, *quick, "--out", "baseline.json"),
        (
            "cloak",
            *table,
            *quick,
            "--method",
            "gaussian",
            "--allow-leak",
            "--save-map",
            "gender.safetensors",
            "--out",
            "defended.parquet",
        ),
    )
    for command in commands:
        done = run_command(command, folder)
        if done.exit_code != 0:
            raise RuntimeError(f"the seed of {command[0]} cannot be made: {done.stderr}")
    (folder / "defended.parquet").unlink()
    _write_map(folder / "map.safetensors")


def _write_tables(folder: Path, rng: np.random.Generator) -> None:
    codes = rng.integers(2, size=N_USERS)
    vectors = (rng.standard_normal((N_USERS, N_DIMENSIONS)) + codes[:, None]).astype(np.float32)
    ids = np.arange(N_USERS, dtype=np.int64) + 100
    numbered = {f"emb_{i}": vectors[:, i] for i in range(N_DIMENSIONS)}
    pyarrow.csv.write_csv(pa.table({"user_id": ids, "note": [f"n{i}" for i in ids], **numbered}), folder / "users.csv")
    values = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), N_DIMENSIONS)
    pq.write_table(pa.table({"user_id": ids, "embedding": values}), folder / "users.parquet")
    pq.write_table(pa.table({"user_id": ids, **numbered}), folder / "numbered.parquet")
    (folder / "parts").mkdir()
    for part in range(2):
        rows = slice(part * N_USERS // 2, (part + 1) * N_USERS // 2)
        columns = {name: values[rows] for name, values in {"user_id": ids, **numbered}.items()}
        pq.write_table(pa.table(columns), folder / "parts" / f"part{part}.parquet")
    np.save(folder / "users.npy", vectors)
    np.save(folder / "ids.npy", ids)
    (folder / "ids.txt").write_text("".join(f"{i}\n" for i in ids))
    save_file({"user_id": ids, "embedding": vectors}, folder / "users.safetensors")
    gender, age = np.array(["F", "M"])[codes], 20 + rng.integers(40, size=N_USERS)
    attributes = pa.table({"user_id": ids, "gender": gender, "age": age})
    pyarrow.csv.write_csv(attributes, folder / "attributes.csv")
    pq.write_table(attributes, folder / "attributes.parquet")
    ranks = np.tile(np.arange(1, 6), N_USERS)
    items = rng.integers(N_ITEMS // 5, size=ranks.size) + (ranks - 1) * (N_ITEMS // 5)
    lists = pa.table({"user_id": np.repeat(ids, 5), "item_id": items, "rank": ranks})
    pyarrow.csv.write_csv(lists, folder / "lists.csv")
    pq.write_table(lists, folder / "lists.parquet")
    item_vectors = pa.FixedSizeListArray.from_arrays(
        pa.array(rng.standard_normal(N_ITEMS * N_DIMENSIONS).astype(np.float32)), N_DIMENSIONS
    )
    pq.write_table(pa.table({"item_id": np.arange(N_ITEMS), "embedding": item_vectors}), folder / "items.parquet")
    pairs = np.unique(rng.integers((N_USERS, N_ITEMS), size=(600, 2)), axis=0)
    log = pa.table({"user_id": pairs[:, 0] + 100, "item_id": pairs[:, 1], "timestamp": rng.permutation(len(pairs))})
    pyarrow.csv.write_csv(log, folder / "interactions.csv")


def _write_data(folder: Path, rng: np.random.Generator) -> None:
    folder.mkdir()
    pairs = np.unique(rng.integers((N_USERS, N_ITEMS), size=(900, 2)), axis=0)
    log = pa.table({"user_id": pairs[:, 0], "item_id": pairs[:, 1], "timestamp": rng.permutation(len(pairs))})
    pyarrow.csv.write_csv(log, folder / "interactions.csv")
    users = {"user_id": np.arange(N_USERS), "gender": ["F", "M"] * (N_USERS // 2)}
    pyarrow.csv.write_csv(pa.table(users), folder / "users.csv")


def _write_membership_files(folder: Path, rng: np.random.Generator) -> None:
    for first, side in ((0, "target"), (1000, "shadow")):
        rows = {"histories": ["user_id,item_id"], "lists": ["user_id,item_id,rank"], "members": ["user_id,member"]}
        for user in range(first, first + 40):
            order = rng.permutation(N_ITEMS)
            rows["histories"] += [f"{user},{item}" for item in order[:8]]
            rows["lists"] += [f"{user},{item},{place + 1}" for place, item in enumerate(order[8:13])]
            rows["members"].append(f"{user},{user % 2}")
        for name, lines in rows.items():
            (folder / f"{side}-{name}.csv").write_text("\n".join(lines) + "\n")
    texts = ["item_id,text", *(f"{item},kind{item % 4}" for item in range(N_ITEMS))]
    (folder / "texts.csv").write_text("\n".join(texts) + "\n")


def _write_map(path: Path) -> None:
    from recveil import Gaussian

    rng = np.random.default_rng(1)
    vectors = rng.standard_normal((N_USERS, N_DIMENSIONS)).astype(np.float32)
    Gaussian().fit(vectors, rng.integers(2, size=N_USERS)).save(path)
