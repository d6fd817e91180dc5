"""What is served from user vectors: a score for every item, and the held-out items to judge it by."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy import sparse

from recveil.audits.catalog import NETWORKS
from recveil.core.errors import DataError, UsageError
from recveil.core.random import generator
from recveil.core.types import Dataset, FloatArray, IntArray, Release, Split
from recveil.data.io.ids import known
from recveil.data.io.user_tables import Vectors, read_embeddings, read_interactions
from recveil.data.splits import leave_one_out
from recveil.metrics.ranking import Ranks, rank, seen_items
from recveil.models.losses import bpr_of_users
from recveil.models.persistence import load_model
from recveil.models.scoring import top_k
from recveil.workflows.train import load_data

__all__ = ["Serving", "data_of_run", "serve_files", "serve_run"]


@dataclass(frozen=True, eq=False)
class Serving:
    """The split that the model was trained on and its scores; `items` are its item vectors if scores are products.

    `rows` says for each user of the split where the vector stands in the table.
    """

    split: Split
    score: Callable[[IntArray, FloatArray], FloatArray] = field(repr=False)
    items: FloatArray | None
    rows: IntArray
    note: str = ""

    def ranks(self, x: FloatArray) -> Ranks:
        """Where each held-out item stands when users are served from this table."""
        return rank(self._served(x), self.split.test, self._seen())

    def release(self, x: FloatArray, k: int, *, again: bool = False) -> Release:
        """What users of the table are shown: the vectors and the top-k lists made from them, in the table's order.

        What users have touched is not listed, unless it may come `again`.
        """
        lists, seen = np.full((len(x), k), -1, dtype=np.int64), self._seen()
        users = np.arange(len(self.rows))
        lists[self.rows] = top_k(self._served(x), users, k, sparse.csr_array(seen.shape) if again else seen)
        return Release(x, self.items, lists, None)

    def activity(self, n: int) -> IntArray:
        """How many interactions each of the n users of the table has."""
        users = np.concatenate([part.user for part in (self.split.train, self.split.valid, self.split.test)])
        return np.bincount(self.rows[users], minlength=n).astype(np.int64)

    def loss(self, *, device: str | None, rng: np.random.Generator) -> Callable[[torch.Tensor], torch.Tensor]:
        """The BPR loss of a table on the training pairs, items frozen."""
        if self.items is None:
            raise UsageError(
                "This model scores by a network, so no loss follows from its vectors alone. Train 'bprmf'."
            )
        return bpr_of_users(self.split.train, self.items, rows=self.rows, device=device, rng=rng)

    def _served(self, x: FloatArray) -> Callable[[IntArray], FloatArray]:
        return lambda users: self.score(users, x[self.rows[users]])

    def _seen(self) -> Any:
        return seen_items(self.split.train, self.split.valid)


def serve_files(vectors: Vectors, items: Path, interactions: Path, *, seed: int) -> Serving:
    """From files: scores are dot products, and the newest interaction of each user is held out."""
    table = read_embeddings(items, of="item")
    if table.x.shape[1] != vectors.x.shape[1]:
        raise DataError(
            f"User vectors have {vectors.x.shape[1]} numbers and item vectors {table.x.shape[1]}, so no score follows "
            "from them. Give the two tables of one model."
        )
    history = read_interactions(interactions, vectors.ids, table.ids)
    split = leave_one_out(history, rng=generator(seed, "held out"))
    note = (
        "Utility is measured on the newest interaction of each user. If the vectors were trained on it too, both "
        "numbers are too high; what changes between them is still the price of the defense."
    )
    everyone = np.arange(len(vectors.x))
    return Serving(split, lambda users, x: np.asarray(x @ table.x.T), table.x, everyone, note)


def data_of_run(run: Path, vectors: Vectors) -> tuple[str, Dataset, IntArray]:
    """The model's name, the data it was trained on, and where each user of these stands in the table."""
    try:
        config = json.loads((run / "config.json").read_text(encoding="utf-8"))
        model, name, seed = str(config["model"]), str(config["data"]), int(config["seed"])
    except (OSError, ValueError, KeyError, TypeError):
        raise DataError(f"{run} has no readable config.json, which names the data it was trained on.") from None
    data = load_data(name, seed=seed)
    return model, data, known(data.user_ids, vectors.ids, name, "user")


def serve_run(run: Path, vectors: Vectors) -> Serving:
    """From a folder that `recveil train` wrote, with the model's own head, on the data it was trained on."""
    name, data, rows = data_of_run(run, vectors)
    model = load_model(run / "model")
    return Serving(leave_one_out(data), model.score, None if name in NETWORKS else model.item_vectors_, rows)
