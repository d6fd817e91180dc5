"""What a trained model of another library releases: vectors, raw ids and a scoring function, in one small type."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike

from recveil.core.errors import DataError, UsageError
from recveil.core.random import make_generator
from recveil.core.types import Dataset, FloatArray, IntArray, Release, Split
from recveil.data.io.ids import Ids, as_numpy
from recveil.data.splits import leave_one_out
from recveil.metrics.ranking import collect_seen_items
from recveil.models.scoring import top_k
from recveil.workflows.comparison import LIST_LENGTH
from recveil.workflows.utility import Recommendations

__all__ = ["ModelRelease", "release_factors", "release_neighbors", "release_scores"]

ScoreItems = Callable[[IntArray, FloatArray], FloatArray]
"""Rows of users and their vectors in, scores of all items out: (n, d) -> (n, n_items)."""

HELD_OUT_NOTE = (
    "Utility is measured on one held-out interaction of each user. If the model was trained on it too, both numbers "
    "are too high; the difference between them is still the price of the defense."
)


@dataclass(frozen=True, eq=False)
class ModelRelease:
    """What a trained model exposes.

    Attributes:
        name: library and class of the model.
        user_vectors: one row for each user; no columns where the model holds no user vectors.
        user_ids: raw ids of the users, by row.
        item_ids: raw ids of the items, by row.
        item_vectors: one row for each item, where the model holds them.
        score: scores of all items for users with these vectors, where the model ranks items.
        is_dot_product: whether a score is the product of both vectors and nothing else.
        interactions: interactions of the users, in the order of the ids, where they are known.
        held_out: interactions that the model was not trained on, where there are some.
        notes: what to know of the numbers.
    """

    name: str
    user_vectors: FloatArray = field(repr=False)
    user_ids: Ids = field(repr=False)
    item_ids: Ids = field(repr=False)
    item_vectors: FloatArray | None = field(default=None, repr=False)
    score: ScoreItems | None = field(default=None, repr=False)
    is_dot_product: bool = False
    interactions: Dataset | None = field(default=None, repr=False)
    held_out: Dataset | None = field(default=None, repr=False)
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for owner, ids, table in (
            ("user", self.user_ids, self.user_vectors),
            ("item", self.item_ids, self.item_vectors),
        ):
            if table is not None and len(ids) != len(table):
                raise DataError(
                    f"The model has {len(table):,} {owner} vectors and {len(ids):,} {owner} ids were given. Give one "
                    "id for each row, in the order of the rows; a padding row needs an id too."
                )

    @property
    def has_vectors(self) -> bool:
        """Whether the model holds user vectors."""
        return bool(self.user_vectors.shape[1])

    def replace_vectors(self, x: FloatArray) -> ModelRelease:
        """Return the release with these user vectors, such as defended ones."""
        return replace(self, user_vectors=x)

    def to_arrow(self) -> pa.Table:
        """Return the user vectors as a table with `user_id` and `embedding`, as our files have them."""
        lists = pa.FixedSizeListArray.from_arrays(pa.array(self.user_vectors.ravel()), self.user_vectors.shape[1])
        return pa.table({"user_id": pa.array(as_numpy(self.user_ids)), "embedding": lists})

    def make_release(self, k: int = LIST_LENGTH) -> Release:
        """Return the surfaces that attackers may look at: vectors, lists without seen items, and scores."""
        x = self.user_vectors if self.has_vectors else None
        if self.score is None:
            return Release(x, self.item_vectors)
        score = self.score

        def score_users(users: IntArray, user_vectors: FloatArray | None = None) -> FloatArray:
            return score(users, self.user_vectors[users] if user_vectors is None else user_vectors)

        lists = None
        if self.interactions is not None:
            lists = top_k(score_users, np.arange(len(self.user_ids)), k, collect_seen_items(self.interactions))
        return Release(x, self.item_vectors, lists, score_users)

    def make_recommendations(self, seed: int) -> Recommendations | None:
        """Return how users are served, for utility; None without a scoring function or interactions."""
        if self.score is None or self.interactions is None:
            return None
        split, note = self._split(seed)
        items = self.item_vectors if self.is_dot_product else None
        return Recommendations(split, self.score, items, np.arange(len(self.user_ids)), note)

    def count_interactions(self) -> IntArray | None:
        """Count the interactions of each user, where they are known."""
        if self.interactions is None:
            return None
        return np.bincount(self.interactions.user, minlength=len(self.user_ids)).astype(np.int64)

    def _split(self, seed: int) -> tuple[Split, str]:
        assert self.interactions is not None
        if self.held_out is None:
            return leave_one_out(self.interactions, rng=make_generator(seed, "held out")), HELD_OUT_NOTE
        nothing = self.interactions.take(np.zeros(len(self.interactions), dtype=np.bool_))
        return Split(self.interactions, nothing, self.held_out), ""


def release_factors(
    name: str,
    users: ArrayLike,
    items: ArrayLike,
    user_ids: Ids,
    item_ids: Ids,
    *,
    user_bias: ArrayLike | None = None,
    item_bias: ArrayLike | None = None,
) -> ModelRelease:
    """Return the release of a model whose scores are products of vectors, plus biases.

    Biases of users become a column of their vectors, since they are released with them. Columns that are the same for
    every user only add to the scores of the items: the scoring function keeps them and the vectors do not.

    Args:
        name: library and class of the model.
        users: (n_users, d) vectors.
        items: (n_items, d) vectors.
        user_ids: raw ids of the users.
        item_ids: raw ids of the items.
        user_bias: a number for each user.
        item_bias: a number for each item.
    """
    x, y = _as_tables(users, items)
    if user_bias is not None:
        x = np.column_stack([x, np.asarray(user_bias, dtype=np.float32).ravel()])
        y = np.column_stack([y, np.ones(len(y), dtype=np.float32)])
    same = np.ptp(x, axis=0) == 0
    offset = y[:, same] @ x[0, same] + (0 if item_bias is None else np.asarray(item_bias, dtype=np.float32).ravel())
    x, y = np.ascontiguousarray(x[:, ~same]), np.ascontiguousarray(y[:, ~same])
    if not x.shape[1]:
        raise DataError("All user vectors are equal, so there is nothing to audit. Train the model first.")

    def score(_: IntArray, vectors: FloatArray) -> FloatArray:
        return np.asarray(vectors @ y.T + offset, dtype=np.float32)

    return ModelRelease(name, x, user_ids, item_ids, y, score, is_dot_product=not np.any(offset))


def release_neighbors(
    name: str, users: ArrayLike, items: ArrayLike, user_ids: Ids, item_ids: Ids, *, cosine: bool
) -> ModelRelease:
    """Return the release of a model that recommends the items nearest to the user.

    Args:
        name: library and class of the model.
        users: (n_users, d) vectors.
        items: (n_items, d) vectors.
        user_ids: raw ids of the users.
        item_ids: raw ids of the items.
        cosine: nearest in angle; else in Euclidean distance.
    """
    x, y = _as_tables(users, items)
    directions = y / np.maximum(np.linalg.norm(y, axis=1, keepdims=True), np.finfo(np.float32).tiny)
    half_squares = (y * y).sum(axis=1) / 2

    def score(_: IntArray, vectors: FloatArray) -> FloatArray:
        # Both are monotone in the similarity of one user to all items, which is all that a ranking needs.
        return np.asarray(vectors @ (directions.T if cosine else y.T) - (0 if cosine else half_squares))

    return ModelRelease(name, x, user_ids, item_ids, y, score)


def release_scores(name: str, score: Callable[[IntArray], FloatArray], user_ids: Ids, item_ids: Ids) -> ModelRelease:
    """Return the release of a model that ranks items and holds no user vectors.

    Args:
        name: library and class of the model.
        score: scores of all items for these rows of users.
        user_ids: raw ids of the users.
        item_ids: raw ids of the items.
    """
    empty = np.empty((len(user_ids), 0), dtype=np.float32)
    return ModelRelease(name, empty, user_ids, item_ids, None, lambda users, _: score(users))


def _as_tables(users: ArrayLike, items: ArrayLike) -> tuple[FloatArray, FloatArray]:
    x, y = _as_table(users, "user"), _as_table(items, "item")
    if x.shape[1] != y.shape[1]:
        raise DataError(
            f"User vectors have {x.shape[1]} numbers and item vectors {y.shape[1]}. Name two tables of one model."
        )
    return x, y


def _as_table(vectors: Any, owner: str) -> FloatArray:
    table = np.asarray(vectors, dtype=np.float32)
    if table.ndim != 2 or not len(table):
        raise DataError(f"The {owner} vectors have shape {table.shape}. Give a table with one row for each {owner}.")
    if not np.isfinite(table).all():
        raise UsageError(f"Some {owner} vectors of the model are not finite. Train it again, with a smaller step.")
    return table
