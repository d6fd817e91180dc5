"""What the user hands in, read and brought into one order: a release, what is known of its users, and its past."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from recveil.attacks.attribute.surfaces import look
from recveil.core.errors import DataError, UsageError
from recveil.core.random import generator
from recveil.core.types import Attribute, Dataset, FloatArray, IntArray, Release
from recveil.data.io.ids import Ids, comparable, known
from recveil.data.io.tables import ITEM, column, read_table
from recveil.data.io.user_tables import (
    Vectors,
    read_attributes,
    read_embeddings,
    read_interactions,
    read_recommendations,
)
from recveil.workflows.defended_release import select_targets

__all__ = ["Files"]


@dataclass(frozen=True)
class Files:
    """A table of vectors and one of attributes, or a folder that `recveil train` wrote; the rest is optional."""

    embeddings: Path | None
    attributes: Path | None
    ids: Path | None = None
    run: Path | None = None
    item_embeddings: Path | None = None
    recommendations: Path | None = None
    interactions: Path | None = None
    numeric: Sequence[str] = ()
    bins: Mapping[str, Sequence[float]] = field(default_factory=dict)
    stream: bool = False

    def read(self, names: list[str], *, numbers: bool = False) -> tuple[Vectors, list[Attribute]]:
        """The vectors, and the named attributes of their users; without names, all, or all that are classes."""
        table, facts = self._paths()
        vectors = read_embeddings(table, self.ids)
        attributes = read_attributes(facts, vectors.ids, numeric=self.numeric, bins=self.bins, keep=names)
        chosen = names or [name for name, a in attributes.items() if numbers or not a.continuous]
        return vectors, select_targets(attributes, chosen, str(facts), numbers=numbers)

    def view(self, vectors: Vectors, surface: str, *, seed: int) -> FloatArray:
        """What the attacker looks at: the vectors themselves, or another surface of what was handed in."""
        if surface == "user_vectors":
            return vectors.x
        exposed, history = self._release(vectors)
        return look(exposed, surface, history=history, rng=generator(seed, "view"))

    def before(self, path: Path, vectors: Vectors) -> FloatArray:
        """The same users' vectors in an earlier release, in the order of this one."""
        earlier = read_embeddings(path)
        if earlier.x.shape[1] != vectors.x.shape[1]:
            raise DataError(
                f"The vectors in {path} have {earlier.x.shape[1]} numbers and the new ones {vectors.x.shape[1]}. "
                "Give the table that these were made from."
            )
        return np.asarray(earlier.x[known(vectors.ids, earlier.ids, "the new table", "user")])

    def _release(self, vectors: Vectors) -> tuple[Release, Dataset | None]:
        items_path = self.item_embeddings or self._of_run("items.parquet")
        lists_path = self.recommendations or self._of_run("recommendations.parquet")
        items = read_embeddings(items_path, of="item") if items_path else None
        x, y = vectors.x, None if items is None else items.x
        if y is not None and x.shape[1] != y.shape[1]:
            raise DataError(
                f"User vectors have {x.shape[1]} numbers and item vectors {y.shape[1]}, so no score follows from them. "
                "Give the two tables of one model."
            )
        lists = None
        if lists_path is not None:
            ids = _item_ids(lists_path) if items is None else items.ids
            lists = read_recommendations(lists_path, vectors.ids, ids)
        history = read_interactions(self.interactions, vectors.ids) if self.interactions else None

        def score(users: IntArray, user_vectors: FloatArray | None = None) -> FloatArray:
            assert y is not None
            return np.asarray((x[users] if user_vectors is None else user_vectors) @ y.T)

        return Release(x, y, lists, None if y is None else score), history

    def _of_run(self, name: str) -> Path | None:
        path = self.run / name if self.run is not None else None
        return path if path is not None and path.is_file() else None

    def _paths(self) -> tuple[Path, Path]:
        if self.run is not None:
            if self.embeddings or self.attributes:
                raise UsageError("Give either --run or --embeddings and --attributes, not both.")
            if not (self.run / "users.parquet").is_file():
                raise DataError(
                    f"{self.run} has no users.parquet. Name a folder that `recveil train` wrote vectors into."
                )
            return self.run / "users.parquet", self.run / "attributes.parquet"
        if self.embeddings is None or self.attributes is None:
            raise UsageError("Give --embeddings FILE and --attributes FILE, or --run FOLDER.")
        return self.embeddings, self.attributes


def _item_ids(path: Path) -> Ids:
    """The items that a file of lists names, each once."""
    table = read_table(path)
    return comparable(table.column(column(table, ITEM, path)), path).unique()
