"""What recommendations are worth: a score for every item from user vectors, held-out items, paired comparisons."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict
from scipy import sparse

from recveil.core.errors import DataError, UsageError
from recveil.core.json_files import read_json_document
from recveil.core.option_types import SeedNumber
from recveil.core.protocols import UtilityLoss
from recveil.core.random import make_generator
from recveil.core.result_parts import Utility, UtilityChange
from recveil.core.types import Attribute, Dataset, FloatArray, IntArray, Release, Split
from recveil.data.io.ids import require_positions
from recveil.data.io.user_tables import Vectors, read_embeddings, read_interactions
from recveil.data.sources.catalog import load_dataset_or_demo
from recveil.data.splits import leave_one_out
from recveil.metrics import ranking
from recveil.models import MODELS
from recveil.models.losses import make_bpr_loss
from recveil.models.persistence import load_model
from recveil.models.scoring import score_lists, top_k
from recveil.workflows.ranking_protocol import DEFAULT_PROTOCOL, Measure, find_protocol

__all__ = [
    "Recommendations",
    "RunConfig",
    "compare_rankings",
    "load_run_data",
    "recommendations_from_files",
    "recommendations_from_run",
]

CUTOFFS = (5, 10, 20)
HEADLINE_MEASURES = ("hit_rate@10", "ndcg@10")
"""Measures that are shown for each class."""

Values = Mapping[str, tuple[FloatArray, FloatArray]]


@dataclass(frozen=True, eq=False)
class Recommendations:
    """How users are served from a table of vectors.

    Attributes:
        split: the interactions, with the held-out items.
        score: scores of all items for users with these vectors.
        items: item vectors, if scores are products of vectors.
        rows: for each user of the split the row in the table.
        note: what to know of the numbers.
        history: all interactions, where the held-out ones are held out for measuring alone; lists omit them too.
    """

    split: Split
    score: Callable[[IntArray, FloatArray], FloatArray] = field(repr=False)
    items: FloatArray | None
    rows: IntArray
    note: str = ""
    history: Dataset | None = None

    def rank_test_items(self, x: FloatArray, omitted: sparse.csr_array | None = None) -> ranking.Ranks:
        """Rank each held-out item when users are served from this table.

        Lists omit seen items, or those that are given; a held-out item among them is a miss.
        """
        if omitted is None:
            return ranking.rank(self._score_from(x), self.split.test, self.collect_seen_items())
        ranks = ranking.rank(self._score_from(x), self.split.test, omitted)
        return ranking.count_known_as_misses(ranks, self.split.test, omitted)

    def make_release(
        self, x: FloatArray, k: int, *, with_seen: bool = False, omitted: sparse.csr_array | None = None
    ) -> Release:
        """Release the vectors and the top-k lists made from them, in the table's order.

        Lists omit seen items or those that are given, and nothing with `with_seen`.
        """
        lists = np.full((len(x), k), -1, dtype=np.int64)
        omitted = self.collect_seen_items() if omitted is None else omitted
        lists[self.rows] = self.list_items(x, k, sparse.csr_array(omitted.shape) if with_seen else omitted)
        return Release(x, self.items, lists, None)

    def list_items(self, x: FloatArray, k: int, omitted: sparse.csr_array) -> IntArray:
        """List the best k items of each user of the split, but for the omitted ones."""
        return top_k(self._score_from(x), np.arange(len(self.rows)), k, omitted)

    def score_lists(self, x: FloatArray, lists: IntArray) -> FloatArray:
        """Score the items of each user's list, if users of the split had these vectors (in the split's order)."""
        return score_lists(lambda users: self.score(users, x[users]), lists)

    def collect_seen_items(self, *, everything: bool = False) -> sparse.csr_array:
        """Collect the seen items of each user: those before the held-out item, or everything that is known."""
        if everything and self.history is not None:
            return ranking.collect_seen_items(self.history)
        return ranking.collect_seen_items(self.split.train, self.split.valid)

    def count_interactions(self, n: int) -> IntArray:
        """Count the interactions of each of the n users of the table."""
        users = np.concatenate([part.user for part in (self.split.train, self.split.valid, self.split.test)])
        return np.bincount(self.rows[users], minlength=n).astype(np.int64)

    def make_loss(self, *, device: str | None, seed: int) -> UtilityLoss:
        """Make the BPR loss of a table on the training pairs, items frozen."""
        if self.items is None:
            raise UsageError("This model scores by a network, so no loss follows from its vectors alone.")
        rng = make_generator(seed, "loss")
        return make_bpr_loss(self.split.train, self.items, rows=self.rows, device=device, rng=rng)

    def _score_from(self, x: FloatArray) -> Callable[[IntArray], FloatArray]:
        return lambda users: self.score(users, x[self.rows[users]])


def recommendations_from_files(vectors: Vectors, items: Path, interactions: Path, *, seed: int) -> Recommendations:
    """Serve by dot products with the item vectors in a file; the newest interaction of each user is held out.

    Args:
        vectors: the user vectors.
        items: file of item vectors.
        interactions: file of interactions; without timestamps the held-out item is drawn at random.
        seed: draws the held-out item where there are no timestamps.
    """
    table = read_embeddings(items, owner="item")
    if table.x.shape[1] != vectors.x.shape[1]:
        raise DataError(
            f"User vectors have {vectors.x.shape[1]} numbers and item vectors {table.x.shape[1]}, so no score follows "
            "from them. Give the two tables of one model."
        )
    history = read_interactions(interactions, vectors.ids, table.ids)
    split = leave_one_out(history, rng=make_generator(seed, "held out"))
    note = (
        "Utility is measured on one held-out interaction of each user. If the vectors were trained on it too, both "
        "numbers are too high; the difference between them is still the price of the defense."
    )
    everyone = np.arange(len(vectors.x))
    return Recommendations(split, lambda users, x: np.asarray(x @ table.x.T), table.x, everyone, note, history)


class RunConfig(BaseModel):
    """What is read of a run's configuration."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True)

    model: str
    data: str
    seed: SeedNumber
    protocol: str = DEFAULT_PROTOCOL


def recommendations_from_run(run: Path, vectors: Vectors) -> Recommendations:
    """Serve by the model in a folder that `recveil train` wrote, on the data it was trained on."""
    config, data, rows = load_run_data(run, vectors)
    model = load_model(run / "model")
    known, trained = (len(model.user_vectors_), len(model.item_vectors_)), (data.n_users, data.n_items)
    if known != trained:
        raise DataError(
            f"The model in {run} knows {known[0]:,} users and {known[1]:,} items, and the data that it was trained on "
            f"have {trained[0]:,} and {trained[1]:,}. Train it again."
        )
    items = model.item_vectors_ if MODELS.traits(config.model).dot_product else None
    return Recommendations(find_protocol(config.protocol).split_interactions(data), model.score, items, rows)


def load_run_data(run: Path, vectors: Vectors) -> tuple[RunConfig, Dataset, IntArray]:
    """Return the run's configuration, the data it was trained on, and the row of each of its users in the table."""
    path = run / "config.json"
    config = read_json_document(
        path, RunConfig, name=str(path), advice="It names the data that the model was trained on: train it again."
    )
    data = load_dataset_or_demo(config.data, seed=config.seed)
    return config, data, require_positions(data.user_ids, vectors.ids, config.data, "user")


def compare_rankings(
    before: ranking.Ranks,
    after: ranking.Ranks,
    attributes: Iterable[Attribute],
    *,
    measures: Mapping[str, Measure] | None = None,
    note: str = "",
) -> Utility:
    """Compare ranking quality before and after, overall and for each class, paired by user.

    Args:
        before: ranks of the held-out items without the defense.
        after: the same with it.
        attributes: attributes whose classes are compared; they are indexed by the users of the ranks.
        measures: measures beside hit rate and NDCG.
        note: what to know of the numbers.
    """
    compared = {"hit_rate": ranking.hit_rate, "ndcg": ranking.ndcg, **(measures or {})}
    values = {f"{name}@{k}": (f(before, k), f(after, k)) for name, f in compared.items() for k in CUTOFFS}
    headline = {name: values[name] for name in HEADLINE_MEASURES}
    per_class = {
        attribute.name: {
            label: _compare_values(headline, attribute.codes[before.users] == code)
            for code, label in enumerate(attribute.labels)
        }
        for attribute in attributes
    }
    overall = _compare_values(values, np.ones(len(before.users), dtype=np.bool_))
    return Utility(**dict(overall), per_class=per_class, note=note)


def _compare_values(values: Values, rows: NDArray[np.bool_]) -> UtilityChange:
    return UtilityChange(
        before={name: ranking.estimate_mean(b[rows]) for name, (b, _) in values.items()},
        after={name: ranking.estimate_mean(a[rows]) for name, (_, a) in values.items()},
        difference={name: ranking.estimate_difference(a[rows], b[rows]) for name, (b, a) in values.items()},
    )
