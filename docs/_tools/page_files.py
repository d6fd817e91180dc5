"""The files that the pages name, small: tables, lists, a run, a plan, and a stand-in for a public data set."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

import recveil as rv

N_USERS, N_ITEMS, D = 300, 150, 6
STUDY = """
title = "A small study"
about = "Two cells."
kind = "attribute"
[grid]
data = ["demo"]
model = [{ name = "puresvd", embedding_size = 8 }]
defense = ["none", "gaussian"]
target = ["gender"]
panel = ["logistic"]
seed = [0]
"""


def write_page_files(folder: Path) -> None:
    """Write every file that a page takes for granted into the folder."""
    rng = np.random.default_rng(0)
    world = rv.make_world(
        n_users=N_USERS, n_items=N_ITEMS, n_interactions=25 * N_USERS, leaks={"gender": 2.0}, d=D, rng=rng
    )
    data = world.dataset
    ids = pa.array([f"u{i:03}" for i in data.user_ids])
    gender = pa.array(np.array(data.attributes["gender"].labels)[data.attributes["gender"].codes])
    ages = pa.array(rng.integers(18, 70, N_USERS))
    users = pa.table({"user_id": ids, "embedding": pa.array(list(world.taste))})
    attributes = pa.table({"user_id": ids, "gender": gender, "age": ages})
    for name in ("users", "new-users", "users-tuesday"):
        pq.write_table(users, folder / f"{name}.parquet")
    pq.write_table(attributes, folder / "attributes.parquet")
    pq.write_table(users.append_column("gender", gender), folder / "table.parquet")
    columns = {f"emb_{i}": world.taste[:, i] for i in range(D)}
    pa.csv.write_csv(pa.table({"user_id": ids, "gender": gender, **columns}), folder / "users.csv")
    items = pa.array([f"i{i:03}" for i in range(N_ITEMS)])
    pq.write_table(pa.table({"item_id": items, "embedding": list(world.item_vectors)}), folder / "items.parquet")
    pairs = pa.table({"user_id": ids.take(data.user), "item_id": items.take(data.item), "timestamp": data.time})
    pq.write_table(pairs, folder / "interactions.parquet")
    write_lists(folder / "lists.parquet", world.taste @ world.item_vectors.T, ids, items)
    write_parts(folder, users.append_column("gender", gender), attributes)
    for name in ("data/ml-1m", "mydata"):
        (folder / name).mkdir(parents=True)
        pq.write_table(pairs, folder / name / "interactions.parquet")
        pq.write_table(attributes, folder / name / "users.parquet")
    (folder / "key").write_bytes(bytes(range(32)))
    (folder / "plan.toml").write_text(STUDY)
    root = Path(__file__).resolve().parents[2]
    shutil.copytree(root / "examples", folder / "examples", dirs_exist_ok=True)


def write_lists(path: Path, scores: np.ndarray, ids: pa.Array, items: pa.Array) -> None:
    """Write the ten best items of each user."""
    best = np.argsort(-scores, axis=1)[:, :10]
    user, rank = np.divmod(np.arange(best.size), 10)
    pq.write_table(pa.table({"user_id": ids.take(user), "item_id": items.take(best.ravel()), "rank": rank + 1}), path)


def write_parts(folder: Path, users: pa.Table, attributes: pa.Table) -> None:
    """Write the table and the attributes as folders of two Parquet files each."""
    for name, table in {"users": users, "facts": attributes}.items():
        (folder / name).mkdir()
        half = len(table) // 2
        for number, part in enumerate((table.slice(0, half), table.slice(half))):
            pq.write_table(part, folder / name / f"part-{number}.parquet")
