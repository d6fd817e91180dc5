"""Tables larger than memory: how they are recognized and opened, and what cannot be asked of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from recveil.audits.attribute.folds import CrossValidation
from recveil.core.errors import UsageError, unknown_name
from recveil.core.types import Attribute
from recveil.data.io.formats.registry import PARQUET_ENDINGS
from recveil.data.io.vectors import ROW_NUMBER, Vectors, read_ids, refuse_missing_ids
from recveil.streaming.audit_sample import SampleDesign, design_sample
from recveil.streaming.block_table import Table, open_table
from recveil.streaming.engines import TaskEngine
from recveil.streaming.labels import AttributeSource
from recveil.streaming.ray_engine import RayTaskEngine
from recveil.workflows.inputs import InputFiles

__all__ = ["LargeTable", "is_large_table", "make_engine", "open_large_table"]

MAX_BYTES_IN_MEMORY = 1 << 30
"""A single file of more bytes than this is not read into memory."""

ENGINES = ("local", "ray")


@dataclass(frozen=True, eq=False)
class LargeTable:
    """A large table, and where the classes of its users are."""

    table: Table
    facts: AttributeSource

    def plan_sample(
        self, rules: CrossValidation, margin: float, seed: int, engine: TaskEngine | None = None
    ) -> SampleDesign:
        """Plan which users an audit under these rules draws."""
        return design_sample(self.table, self.facts, rules, margin, seed=seed, engine=engine)

    def draw_sample(
        self, rules: CrossValidation, margin: float, seed: int
    ) -> tuple[Vectors, list[Attribute], list[str], str]:
        """Draw the users that an audit needs; return them with notes on the attributes and a sentence on the sample."""
        plan = self.plan_sample(rules, margin, seed)
        users = plan.draw_users(self.table)
        vectors = Vectors(users.ids, users.x, self.table.id_column, ("embedding",), None, np.float32)
        return vectors, users.targets, list(plan.labels.notes), plan.describe_sample(self.table.rows)


def is_large_table(files: InputFiles) -> bool:
    """Tell whether the table is read in blocks: a folder, a file of more than 1 GiB, or on request."""
    path = files.embeddings
    if path is None or files.run is not None:
        return False
    if path.is_dir() or files.stream:
        return True
    is_table = path.suffix.lower() in (*PARQUET_ENDINGS, ".npy") and path.is_file()
    return is_table and path.stat().st_size > MAX_BYTES_IN_MEMORY


def open_large_table(files: InputFiles, names: list[str]) -> LargeTable:
    """Open the table; its attributes are columns of its own or in the other file. Only footers are read."""
    if files.embeddings is None:
        raise UsageError("A large table is named by `embeddings`; the Ray engine is for large tables only.")
    unusable = {
        "item_embeddings": files.item_embeddings,
        "interactions": files.interactions,
        "recommendations": files.recommendations,
    }
    for name, value in unusable.items():
        if value is not None:
            raise UsageError(f"`{name}` cannot be used with a large table. Take a part of it that fits into memory.")
    if files.ids is None and files.embeddings.suffix.lower() == ".npy":
        raise refuse_missing_ids(files.embeddings)
    # The table numbers its rows itself.
    ids = None if files.ids is None or files.ids == ROW_NUMBER else read_ids(files.ids, "user")
    inside = files.attributes is None or files.attributes == files.embeddings
    facts = AttributeSource(
        None if inside else files.attributes,
        tuple(names),
        tuple(files.numeric),
        dict(files.bins),
        tuple(files.keep_label),
        tuple(files.undisclosed),
    )
    return LargeTable(open_table(files.embeddings, ids, files.layout), facts)


def make_engine(name: str, address: str | None = None) -> TaskEngine | None:
    """Make the engine for large tables; None for the default, threads of this process."""
    if name not in ENGINES:
        raise unknown_name("engine", name, ENGINES)
    if name == "ray":
        return RayTaskEngine(address)
    if address is not None:
        raise UsageError("`address` is that of a Ray cluster. Use `engine` ray with it, or leave it out.")
    return None
