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
from recveil.metrics.power import TARGET_POWER, allow_for_learning, compute_advantage_error, compute_detection_threshold
from recveil.streaming.block_table import Table
from recveil.streaming.cloaked_table import check_targets, scan_labels
from recveil.streaming.engines import TaskEngine, ThreadEngine
from recveil.streaming.labels import AttributeSource, Labels
from recveil.streaming.passes import SampleTask
from recveil.streaming.sketch import Sketch, compute_key_limits

__all__ = ["UserSample", "SampleDesign", "design_sample", "count_needed_users"]

MIN_USERS_PER_CLASS, MAX_USERS_PER_CLASS = 500, 1_000_000


@dataclass(frozen=True, eq=False)
class UserSample:
    """The users who were drawn: their ids, vectors and attributes."""

    ids: pa.Array
    x: FloatArray
    targets: list[Attribute]


@dataclass(frozen=True, eq=False)
class SampleDesign:
    """Which users of a table are drawn: `k` of each cell, by keys that hang on the seed and the row number alone.

    A table with the same rows in the same order, such as the cloaked one, is drawn from alike.
    """

    labels: Labels
    counts: IntArray
    quota: IntArray
    needed_users: dict[str, int]
    seed: int

    def draw_users(self, table: Table, engine: TaskEngine | None = None) -> UserSample:
        """The users, in the order of the table."""
        work = SampleTask(table, self.labels, compute_key_limits(self.counts, self.quota), self.seed)
        drawn = (
            (engine or ThreadEngine())
            .reduce(work, table.list_spans(), Sketch.merge, "drawing users")
            .keep_smallest(self.quota)
        )
        drawn = drawn.take_rows(np.argsort(drawn.rows))
        codes = self.labels.codes[drawn.cells]
        targets = [Attribute(t.name, codes[:, j].copy(), t.labels) for j, t in enumerate(self.labels.targets)]
        return UserSample(_read_ids(table, drawn.rows), drawn.x, targets)

    def describe_sample(self, rows: int) -> str:
        """What the report says of the sample."""
        said = self.labels.count_classes(np.minimum(self.quota, self.counts))
        parts = []
        for name, classes in said.items():
            taken = ", ".join(f"{n:,} {label}" for label, n in classes.items())
            parts.append(f"{name}: {taken} (needed of each: {self.needed_users[name]:,})")
        return (
            f"The table has {rows:,} users; the audit drew {int(self.quota.sum()):,} of them, by class, as many as its "
            f"power statement asks for. {'; '.join(parts)}. Accuracy is that among the users drawn, not among all."
        )


def design_sample(
    table: Table, facts: AttributeSource, rules: CrossValidation, margin: float, *, seed: int, engine: TaskEngine | None
) -> SampleDesign:
    """How many users of each class an audit under these rules needs, and which."""
    check_targets(table, facts)
    with tempfile.TemporaryDirectory(prefix="recveil-") as folder:
        labels, counts = scan_labels(table, facts, engine or ThreadEngine(), Path(folder))
    needed = {t.name: count_needed_users(len(t.labels), table.d, rules, margin) for t in labels.targets}
    classes = labels.count_classes(counts)
    share = np.zeros(labels.n_cells)
    for j, target in enumerate(labels.targets):
        n = np.array([0, *classes[target.name].values()])
        wanted = np.where(n > 0, np.minimum(1.0, needed[target.name] / np.maximum(n, 1)), 0.0)
        share = np.maximum(share, wanted[labels.codes[:, j] + 1])
    return SampleDesign(labels, counts, np.ceil(share * counts - 1e-9).astype(np.int64), needed, seed)


def count_needed_users(n_classes: int, d: int, rules: CrossValidation, margin: float) -> int:
    """Of each class: so many that the margin is told from chance, and twice the margin found, 95 % of the time."""
    errors, beyond = (
        compute_detection_threshold(rules.folds, rules.repeats, rules.test_share),
        float(stats.norm.ppf(TARGET_POWER)),
    )
    known = rules.leak_ratio or 1 - 1 / rules.folds

    def enough(n: int) -> bool:
        error = compute_advantage_error(margin, [n] * n_classes)
        resolved = max(errors * error, margin + beyond * error)
        found = allow_for_learning(resolved, [known * n] * n_classes, d)
        return errors * error <= margin and found <= 2 * margin

    low, high = MIN_USERS_PER_CLASS, MAX_USERS_PER_CLASS
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle + 1, high)
    return high


def _read_ids(table: Table, rows: IntArray) -> pa.Array:
    """The ids of these rows, which are in order."""
    found = []
    for span in table.list_spans():
        for block in table.read_blocks(span, [table.id_column], vectors=False):
            low, high = np.searchsorted(rows, [block.start, block.start + len(block.columns)])
            found.append(block.columns.column(table.id_column).take(pa.array(rows[low:high] - block.start)))
    return pa.chunked_array(found).combine_chunks()
