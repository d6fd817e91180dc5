"""When what is handed in is a large table: how it is recognized, opened, and what cannot be asked of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from recveil.audits.attribute.folds import Folds
from recveil.core.errors import UsageError, unknown_name
from recveil.core.types import Attribute
from recveil.data.io.vectors import PARQUET, Vectors, id_file
from recveil.streaming.audit_sample import Stratified, stratify
from recveil.streaming.block_table import Table, open_table
from recveil.streaming.engines import Engine
from recveil.streaming.labels import Facts
from recveil.streaming.ray_engine import RayEngine
from recveil.workflows.inputs import Files

__all__ = ["Large", "engine_of", "is_large", "open_large"]

LARGE_BYTES = 1 << 30
"""A single file of more bytes than this is not read into memory."""

ENGINES = ("local", "ray")


@dataclass(frozen=True, eq=False)
class Large:
    """A large table, and where the classes of its users stand."""

    table: Table
    facts: Facts

    def stratified(self, rules: Folds, margin: float, seed: int, engine: Engine | None = None) -> Stratified:
        """Which users an audit under these rules draws."""
        return stratify(self.table, self.facts, rules, margin, seed=seed, engine=engine)

    def drawn(self, rules: Folds, margin: float, seed: int) -> tuple[Vectors, list[Attribute], str]:
        """The users an audit needs, as if they had been handed in alone, and what is to be said of that."""
        which = self.stratified(rules, margin, seed)
        users = which.draw(self.table)
        vectors = Vectors(users.ids, users.x, self.table.key, ("embedding",), None, np.float32)
        return vectors, users.targets, which.sentence(self.table.rows)


def is_large(files: Files) -> bool:
    """Whether the table is to be read in blocks: a folder, a file of more than 1 GiB, or by wish."""
    path = files.embeddings
    if path is None or files.run is not None:
        return False
    if path.is_dir() or files.stream:
        return True
    return path.suffix.lower() in (*PARQUET, ".npy") and path.is_file() and path.stat().st_size > LARGE_BYTES


def open_large(files: Files, names: list[str]) -> Large:
    """The table in the files, with its attributes in columns of its own or in the other file; footers are read."""
    if files.embeddings is None:
        raise UsageError("A large table is named by --embeddings; --engine ray is for large tables only.")
    asked = {
        "--item-embeddings": files.item_embeddings,
        "--interactions": files.interactions,
        "--recommendations": files.recommendations,
    }
    given = [option for option, value in asked.items() if value is not None]
    if given:
        raise UsageError(f"{given[0]} cannot be used with a large table. Take a part of it that fits into memory.")
    ids = None if files.ids is None else id_file(files.ids, "user")
    inside = files.attributes is None or files.attributes == files.embeddings
    facts = Facts(None if inside else files.attributes, tuple(names), tuple(files.numeric), dict(files.bins))
    return Large(open_table(files.embeddings, ids), facts)


def engine_of(name: str, address: str | None = None) -> Engine | None:
    """Who does the work on a large table; nobody yet where nothing special was asked for."""
    if name not in ENGINES:
        raise unknown_name("engine", name, ENGINES)
    if name == "ray":
        return RayEngine(address)
    if address is not None:
        raise UsageError("--address is that of a Ray cluster. Add --engine ray, or leave it out.")
    return None
