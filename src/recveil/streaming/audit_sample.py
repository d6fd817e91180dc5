"""Users of a large table to audit: as many of each class as the audit needs to see what it is asked for, no more.

How many follows from the power statement of the audit (`metrics/power.py`): with them an advantage as large as the
margin is surely told from chance, and a leak of twice the margin surely found by attackers who first have to learn it.
A class with fewer users is taken whole.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from scipy import stats

from recveil.audits.attribute.folds import CrossValidation
from recveil.core.types import Attribute, FloatArray, IntArray
from recveil.metrics.power import POWER, advantage_error, allow_for_learning, seen_surely
from recveil.streaming.block_table import Table
from recveil.streaming.cloaked_table import check_names, examine
from recveil.streaming.engines import Engine, Threads
from recveil.streaming.labels import Facts, Labels
from recveil.streaming.passes import Sample
from recveil.streaming.sketch import Sketch, limits

__all__ = ["Sampled", "Stratified", "stratify", "users_needed"]

FEWEST, MOST = 500, 1_000_000


@dataclass(frozen=True, eq=False)
class Sampled:
    """The users who were drawn: their ids, vectors and attributes."""

    ids: pa.Array
    x: FloatArray
    targets: list[Attribute]


@dataclass(frozen=True, eq=False)
class Stratified:
    """Which users of a table are drawn: `k` of each cell, by keys that hang on the seed and the row number alone.

    A table with the same rows in the same order, such as the cloaked one, is drawn from alike.
    """

    labels: Labels
    counts: IntArray
    k: IntArray
    needed: dict[str, int]
    seed: int

    def draw(self, table: Table, engine: Engine | None = None) -> Sampled:
        """The users, in the order of the table."""
        work = Sample(table, self.labels, limits(self.counts, self.k), self.seed)
        drawn = (engine or Threads()).reduce(work, table.spans(), Sketch.merge, "drawing users").smallest(self.k)
        drawn = drawn.take(np.argsort(drawn.rows))
        codes = self.labels.codes[drawn.cells]
        targets = [Attribute(t.name, codes[:, j].copy(), t.labels) for j, t in enumerate(self.labels.targets)]
        return Sampled(_ids_at(table, drawn.rows), drawn.x, targets)

    def sentence(self, rows: int) -> str:
        """What the report says of the sample."""
        said = self.labels.class_counts(np.minimum(self.k, self.counts))
        parts = []
        for name, classes in said.items():
            taken = ", ".join(f"{n:,} {label}" for label, n in classes.items())
            parts.append(f"{name}: {taken} (needed of each: {self.needed[name]:,})")
        return (
            f"The table has {rows:,} users; the audit drew {int(self.k.sum()):,} of them, by class, as many as its "
            f"power statement asks for. {'; '.join(parts)}. Accuracy is that among the users drawn, not among all."
        )


def stratify(
    table: Table, facts: Facts, rules: CrossValidation, margin: float, *, seed: int, engine: Engine | None
) -> Stratified:
    """How many users of each class an audit under these rules needs, and which."""
    check_names(table, facts)
    with tempfile.TemporaryDirectory(prefix="recveil-") as folder:
        labels, counts = examine(table, facts, engine or Threads(), Path(folder))
    needed = {t.name: users_needed(len(t.labels), table.d, rules, margin) for t in labels.targets}
    classes = labels.class_counts(counts)
    share = np.zeros(labels.n_cells)
    for j, target in enumerate(labels.targets):
        n = np.array([0, *classes[target.name].values()])
        wanted = np.where(n > 0, np.minimum(1.0, needed[target.name] / np.maximum(n, 1)), 0.0)
        share = np.maximum(share, wanted[labels.codes[:, j] + 1])
    return Stratified(labels, counts, np.ceil(share * counts - 1e-9).astype(np.int64), needed, seed)


def users_needed(n_classes: int, d: int, rules: CrossValidation, margin: float) -> int:
    """Of each class: so many that the margin is told from chance, and twice the margin found, 95 % of the time."""
    errors, beyond = seen_surely(rules.folds, rules.repeats, rules.test_share), float(stats.norm.ppf(POWER))
    known = rules.leak_ratio or 1 - 1 / rules.folds

    def enough(n: int) -> bool:
        error = advantage_error(margin, [n] * n_classes)
        resolved = max(errors * error, margin + beyond * error)
        found = allow_for_learning(resolved, [known * n] * n_classes, d)
        return errors * error <= margin and found <= 2 * margin

    low, high = FEWEST, MOST
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle + 1, high)
    return high


def _ids_at(table: Table, rows: IntArray) -> pa.Array:
    """The ids of these rows, which are in order."""
    found = []
    for span in table.spans():
        for block in table.blocks(span, [table.key], vectors=False):
            low, high = np.searchsorted(rows, [block.start, block.start + len(block.columns)])
            found.append(block.columns.column(table.key).take(pa.array(rows[low:high] - block.start)))
    return pa.chunked_array(found).combine_chunks()
