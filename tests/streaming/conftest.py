"""A small table in parts, with a leak beyond the means of the classes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest


@dataclass(frozen=True, eq=False)
class Made:
    path: Path
    ids: np.ndarray
    x: np.ndarray
    gender: np.ndarray
    age: np.ndarray

    @property
    def table(self) -> pa.Table:
        return as_table(self.ids, self.x, self.gender, self.age)


def as_table(ids: np.ndarray, x: np.ndarray, gender: np.ndarray, age: np.ndarray) -> pa.Table:
    lists = pa.FixedSizeListArray.from_arrays(pa.array(x.reshape(-1)), x.shape[1])
    return pa.table({"user_id": ids, "embedding": lists, "gender": gender.tolist(), "age": age})


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Made]:
    """A folder of parts; `unknown` is the share of users who do not disclose their gender."""

    def made(
        n: int = 3000, d: int = 5, parts: int = 3, *, unknown: float = 0.1, group: int = 400, seed: int = 0
    ) -> Made:
        rng = np.random.default_rng(seed)
        codes, age = rng.integers(0, 2, n), rng.integers(20, 60, n)
        x = rng.standard_normal((n, d)).astype(np.float32)
        x[:, 0] += codes + 3
        x[:, 1] *= 1 + codes
        x[:, 2] = np.where(codes == 1, np.abs(x[:, 2]), x[:, 2])
        x[:, 3] += (age > 40) * 0.7
        gender = np.where(rng.random(n) < unknown, None, np.array(["F", "M"], dtype=object)[codes])
        folder = tmp_path / "in"
        folder.mkdir()
        world = Made(folder, np.arange(n) * 7, x, gender, age)
        for p, rows in enumerate(np.array_split(np.arange(n), parts)):
            part = as_table(world.ids[rows], x[rows], gender[rows], age[rows])
            pq.write_table(part, folder / f"part-{p}.parquet", row_group_size=group)
        return world

    return made
