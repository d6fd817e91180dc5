"""The Spark recipe of docs/how-to/large-tables.md, run on Arrow batches in place of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

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


def test_the_recipe_gives_the_numbers_of_memory(make: Callable[..., Any]) -> None:
    world = make()
    rows = world.table.set_column(1, "embedding", world.table.column("embedding").cast(pa.list_(pa.float32())))
    batches = rows.to_batches(max_chunksize=450)
    page = PAGE.read_text()
    code = page[page.index("```python") + len("```python") : page.rindex("```")]
    names: dict[str, Any] = {"users": Frame([batches[:2], batches[2:5], [], batches[5:]])}
    exec(compile(code, str(PAGE), "exec"), names)
    codes = np.array([{"F": 0, "M": 1, None: -1}[g] for g in world.gender])
    wanted = Gaussian(device="cpu")(world.x, codes, rng=make_generator(0, "cloak"))
    got = names["safe"].table()
    assert got.schema.equals(rows.schema)
    np.testing.assert_allclose(np.stack(got.column("embedding").to_pylist()), wanted, atol=1e-5 * world.x.std())
