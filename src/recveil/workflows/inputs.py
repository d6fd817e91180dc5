"""Inputs of the commands on tables: user vectors, attributes, and what else is known of a release, in one order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np

from recveil.attacks.attribute.surfaces import build_view
from recveil.core.errors import DataError, RecveilError, UsageError
from recveil.core.random import make_generator
from recveil.core.result_parts import InputSummary
from recveil.core.run_folders import check_folder_is_whole
from recveil.core.types import Attribute, Dataset, FloatArray, IntArray, Release
from recveil.data.io.array_files import check_scale
from recveil.data.io.attributes import AttributeTable, make_attributes, select_auditable
from recveil.data.io.ids import Ids, match_users, normalize_ids
from recveil.data.io.tables import ITEM_NAMES, read_table, require_column
from recveil.data.io.user_tables import (
    Vectors,
    read_attributes,
    read_embeddings,
    read_interactions,
    read_listed_users,
    read_recommendations,
    select_own_attributes,
)
from recveil.data.io.vectors import ROW_NUMBER, Layout, holds_ids
from recveil.workflows.defended_release import select_targets
from recveil.workflows.utility import load_run_data

__all__ = ["RUN_FILES", "RUN_SIGNS", "InputFiles", "count_activity", "summarize_input"]

RUN_FILES = (
    "model/model.safetensors",
    "model/model.json",
    "users.parquet",
    "items.parquet",
    "recommendations.parquet",
    "attributes.parquet",
    "config.json",
    "metrics.json",
    "privacy.json",
)
"""Files that `recveil train` writes into its folder; a model without user vectors or guarantee leaves some out."""

RUN_SIGNS = ("config.json", "metrics.json")
"""Files that are in every such folder."""


@dataclass(frozen=True)
class InputFiles:
    """A table of vectors and one of attributes, or a folder that `recveil train` wrote; the rest is optional.

    Attributes:
        embeddings: table of user vectors; None where lists are audited alone.
        attributes: table of attributes; None if the table of vectors holds them.
        ids: ids of the rows, for a table of vectors without any; "row-number" if they are 0, 1, 2, ...
        run: folder that `recveil train` wrote, in place of the two tables.
        item_embeddings: table of item vectors.
        recommendations: lists that users are shown.
        interactions: interactions of the users.
        numeric: columns that hold numbers, not classes.
        bins: edges that cut a numeric column into classes.
        keep_label: labels to keep as classes though they look undisclosed, such as "none".
        stream: read and write in blocks.
        layout: names of the columns or arrays that hold the vectors and ids.
        undisclosed: further labels of users who did not disclose.
    """

    embeddings: Path | None
    attributes: Path | None = None
    ids: Path | Literal["row-number"] | None = None
    run: Path | None = None
    item_embeddings: Path | None = None
    recommendations: Path | None = None
    interactions: Path | None = None
    numeric: Sequence[str] = ()
    bins: Mapping[str, Sequence[float]] = field(default_factory=dict)
    keep_label: Sequence[str] = ()
    stream: bool = False
    layout: Layout = Layout()
    undisclosed: Sequence[str] = ()

    @property
    def has_lists_alone(self) -> bool:
        """Whether the release consists of lists, and no vectors are known."""
        return self.embeddings is None and self.run is None and self.recommendations is not None

    @property
    def kept_labels(self) -> Sequence[str] | None:
        """Labels to keep though they look undisclosed; None for all, as of a run, whose labels were read before."""
        return self.keep_label if self.run is None else None

    def list_paths(self) -> list[tuple[str, Path]]:
        """List all files and folders that are read, each with the name of its argument."""
        paths = {
            "embeddings": self.embeddings,
            "attributes": self.attributes,
            "ids": None if self.ids == ROW_NUMBER else self.ids,
            "item_embeddings": self.item_embeddings,
            "recommendations": self.recommendations,
            "interactions": self.interactions,
        }
        run_files = [] if self.run is None else [("run", self.run / name) for name in RUN_FILES]
        return [*((name, Path(path)) for name, path in paths.items() if path is not None), *run_files]

    def read(self, names: list[str], *, numbers: bool = False) -> tuple[Vectors, list[Attribute], list[str]]:
        """Read the vectors and the named attributes of their users; without names all, or all that are classes.

        The third part are notes: users, columns and labels that were left out.
        """
        table, facts = self._find_tables()
        if self.has_lists_alone:
            vectors = read_listed_users(table)
        else:
            vectors = read_embeddings(table, self.ids, layout=self.layout)
            check_scale(vectors.x, table)
        attributes = self.read_facts(facts, vectors, names)
        chosen, notes = (names, []) if names else _choose_targets(attributes, numbers=numbers)
        targets = select_targets(attributes, chosen, str(facts or table), numbers=numbers)
        return vectors, targets, [*attributes.notes, *notes]

    def read_facts(self, path: Path | None, vectors: Vectors, names: Sequence[str]) -> AttributeTable:
        """Read the attributes of these users from a file, or from the table of the vectors itself."""
        if path is None:
            read = partial(make_attributes, select_own_attributes(vectors))
        else:
            read = partial(read_attributes, path, vectors.ids, key=self.layout.key)
        return read(
            numeric=self.numeric,
            bins=self.bins,
            keep=names,
            keep_label=self.kept_labels,
            undisclosed=self.undisclosed,
        )

    def read_surface(self, vectors: Vectors, surface: str, *, seed: int) -> FloatArray:
        """Return what the attacker sees: the vectors themselves, or another surface of the release."""
        if surface == "user_vectors" and not self.has_lists_alone:
            return vectors.x
        exposed, history = self._read_release(vectors)
        return build_view(exposed, surface, history=history, rng=make_generator(seed, "view"))

    def read_earlier(self, path: Path, vectors: Vectors) -> FloatArray:
        """Return the same users' vectors in an earlier release, in the order of this one; NaN for users not in it."""
        # A second array without ids has the same rows as the first.
        has_ids = holds_ids(path, layout=self.layout)
        earlier = read_embeddings(path, None if has_ids else self.ids, layout=self.layout)
        if earlier.x.shape[1] != vectors.x.shape[1]:
            raise DataError(
                f"The vectors in {path} have {earlier.x.shape[1]} numbers and the new ones {vectors.x.shape[1]}. "
                "Give the table that these were made from."
            )
        rows = match_users(vectors.ids, earlier.ids, path)
        return np.where(rows[:, None] >= 0, earlier.x[rows], np.float32(np.nan))

    def _read_release(self, vectors: Vectors) -> tuple[Release, Dataset | None]:
        items_path = self.item_embeddings or self._find_in_run("items.parquet")
        lists_path = self.recommendations or self._find_in_run("recommendations.parquet")
        item_ids = ROW_NUMBER if self.ids == ROW_NUMBER and items_path and not holds_ids(items_path, "item") else None
        items = read_embeddings(items_path, item_ids, owner="item") if items_path else None
        x, y = vectors.x, None if items is None else items.x
        if y is not None and x.shape[1] != y.shape[1] and not self.has_lists_alone:
            raise DataError(
                f"User vectors have {x.shape[1]} numbers and item vectors {y.shape[1]}, so no score follows from them. "
                "Give the two tables of one model."
            )
        lists = None
        if lists_path is not None:
            ids = _list_item_ids(lists_path) if items is None else items.ids
            lists = read_recommendations(lists_path, vectors.ids, ids)
        history = read_interactions(self.interactions, vectors.ids) if self.interactions else None

        def score(users: IntArray, user_vectors: FloatArray | None = None) -> FloatArray:
            assert y is not None
            return np.asarray((x[users] if user_vectors is None else user_vectors) @ y.T)

        if self.has_lists_alone:
            return Release(None, y, lists), history
        return Release(x, y, lists, None if y is None else score), history

    def _find_in_run(self, name: str) -> Path | None:
        path = self.run / name if self.run is not None else None
        return path if path is not None and path.is_file() else None

    def _find_tables(self) -> tuple[Path, Path | None]:
        if self.run is not None:
            if self.embeddings or self.attributes:
                raise UsageError("Give either `run`, or `embeddings` and `attributes`, not both.")
            check_folder_is_whole(self.run)
            if not (self.run / "users.parquet").is_file():
                raise DataError(
                    f"{self.run} has no users.parquet. Name a folder that `recveil train` wrote vectors into."
                )
            return self.run / "users.parquet", self.run / "attributes.parquet"
        if self.embeddings is not None:
            return self.embeddings, self.attributes
        if self.recommendations is None or self.attributes is None:
            raise UsageError(
                "Name a table of user vectors, such as users.parquet; or `recommendations` with `attributes`; or "
                "the folder of a `run`."
            )
        return self.recommendations, self.attributes


def _choose_targets(attributes: Mapping[str, Attribute], *, numbers: bool) -> tuple[list[str], list[str]]:
    """Choose what is audited where nobody named a target; return the names and a sentence on each of the others."""
    usable = {name: attribute for name, attribute in attributes.items() if numbers or not attribute.is_numeric}
    notes = [
        f"{name} was left out: it holds numbers. Cut it into classes by `bins`."
        for name in attributes
        if name not in usable
    ]
    chosen, reasons = select_auditable(usable)
    return chosen or list(usable), [*notes, *reasons]


def summarize_input(files: InputFiles, vectors: Vectors, *, sample: str | None = None) -> InputSummary:
    """Return what was handed in as a part of a result."""
    name = (files.run or files.embeddings or files.recommendations or Path()).name
    return InputSummary(name=name, n_users=len(vectors.x), d=vectors.x.shape[1] or None, sample=sample)


def count_activity(files: InputFiles, vectors: Vectors) -> IntArray | None:
    """Count the interactions of each user, from their file or from the data that the run was trained on."""
    n = len(vectors.x)
    if files.interactions is not None:
        return np.bincount(read_interactions(files.interactions, vectors.ids).user, minlength=n).astype(np.int64)
    if files.run is None:
        return None
    try:
        _, data, rows = load_run_data(files.run, vectors)
    except RecveilError:
        return None  # the data of the run need not be on the machine that audits it
    return np.bincount(rows[data.user], minlength=n).astype(np.int64)


def _list_item_ids(path: Path) -> Ids:
    """List the items that a file of lists names, each once."""
    table = read_table(path)
    return normalize_ids(table.column(require_column(table, ITEM_NAMES, path)), path).unique()
