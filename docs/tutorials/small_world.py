"""Write the files of the tutorials: a made-up platform of 800 users whose vectors reveal gender and age."""

import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import recveil as rv

N_TODAY, N_LATER = 800, 200

world = rv.make_world(
    n_users=N_TODAY + N_LATER,
    n_items=300,
    n_interactions=30_000,
    leaks={"gender": 2.0, "age": 1.5},
    rng=np.random.default_rng(0),
)
data = world.dataset


def write_users(name: str, rows: slice) -> None:
    """Write vectors and attributes of some users as two tables."""
    ids = pa.array([f"u{i:04}" for i in data.user_ids[rows]])
    pq.write_table(pa.table({"user_id": ids, "embedding": list(world.taste[rows])}), f"{name}.parquet")
    columns = {key: np.array(each.labels)[each.codes[rows]] for key, each in data.attributes.items()}
    pq.write_table(pa.table({"user_id": ids, **columns}), f"{name}-attributes.parquet")


write_users("users", slice(0, N_TODAY))
write_users("later-users", slice(N_TODAY, None))
items = pa.array([f"i{i:03}" for i in data.item_ids])
pq.write_table(pa.table({"item_id": items, "embedding": list(world.item_vectors)}), "items.parquet")
today = data.user < N_TODAY
pairs = {
    "user_id": [f"u{u:04}" for u in data.user[today]],
    "item_id": [f"i{i:03}" for i in data.item[today]],
    "timestamp": data.time[today],
}
pq.write_table(pa.table(pairs), "interactions.parquet")
Path("platform").mkdir(exist_ok=True)  # the same as a data set, for models that are trained here
shutil.copy("interactions.parquet", "platform/interactions.parquet")
shutil.copy("users-attributes.parquet", "platform/users.parquet")
print("Wrote users, users-attributes, later-users, later-users-attributes, items, interactions (.parquet), platform/.")
