"""The Spark recipe of docs/how-to/large-tables.md, run on Arrow batches and, among the slow tests, by PySpark."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from recveil.core.random import make_generator
from recveil.defenses.embeddings.gaussian import Gaussian

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "large-tables.md"


class Frame:
    """What the recipe needs of a Spark data frame: partitions of batches."""

    schema = None

    def __init__(self, partitions: list[list[pa.RecordBatch]]) -> None:
        self.partitions = partitions

    def mapInArrow(self, function: Callable[[Iterator[Any]], Iterator[Any]], schema: Any) -> Frame:
        return Frame([list(function(iter(batches))) for batches in self.partitions])

    def table(self) -> pa.Table:
        return pa.Table.from_batches([batch for batches in self.partitions for batch in batches])

    def collect(self) -> list[dict[str, Any]]:
        return self.table().to_pylist()


def read_rows(world: Any) -> pa.Table:
    return world.table.set_column(1, "embedding", world.table.column("embedding").cast(pa.list_(pa.float32())))


def run_recipe(users: Any) -> Any:
    page = PAGE.read_text()
    code = page[page.index("```python") + len("```python") : page.rindex("```")]
    names: dict[str, Any] = {"users": users}
    exec(compile(code, str(PAGE), "exec"), names)
    return names["safe"]


def check_vectors(world: Any, vectors: np.ndarray) -> None:
    codes = np.array([{"F": 0, "M": 1, None: -1}[g] for g in world.gender])
    wanted = Gaussian(device="cpu")(world.x, codes, rng=make_generator(0, "cloak"))
    np.testing.assert_allclose(vectors, wanted, atol=1e-5 * world.x.std())


def test_the_recipe_gives_the_numbers_of_memory(make: Callable[..., Any]) -> None:
    world = make()
    rows = read_rows(world)
    batches = rows.to_batches(max_chunksize=450)
    got = run_recipe(Frame([batches[:2], batches[2:5], [], batches[5:]])).table()
    assert got.schema.equals(rows.schema)
    check_vectors(world, np.stack(got.column("embedding").to_pylist()))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
def test_the_recipe_gives_the_numbers_of_memory_on_spark(
    make: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pyspark = pytest.importorskip("pyspark.sql")
    if shutil.which("java") is None:
        pytest.skip("Spark runs on a Java machine, and there is none.")
    world = make()
    (tmp_path / "parts").mkdir()
    for part in range(3):
        pq.write_table(read_rows(world).slice(part * 1000, 1000), tmp_path / "parts" / f"{part}.parquet")
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        monkeypatch.setenv(name, sys.executable)
    builder = pyspark.SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    session = builder.config("spark.sql.execution.arrow.maxRecordsPerBatch", "450").getOrCreate()
    try:
        users = session.read.parquet(str(tmp_path / "parts"))
        assert users.rdd.getNumPartitions() > 1
        run_recipe(users).write.parquet(str(tmp_path / "safe"))
    finally:
        session.stop()
    got = pq.read_table(tmp_path / "safe").sort_by("user_id")
    assert got.column("user_id").to_pylist() == world.ids.tolist()
    check_vectors(world, np.stack(got.column("embedding").to_pylist()))
