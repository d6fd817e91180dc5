"""Sample of a large table for an audit: as many users of each class as the power of the audit requires, and no more.

The number follows from the power statement of the audit (`metrics/power.py`): the audit then detects an advantage as
large as the margin with 95 % power, and a leak of twice the margin through attacks that first have to learn it. A class
with fewer users is taken whole.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from scipy import stats

from recveil.audits.attribute.folds import CrossValidation
from recveil.core.files import make_temporary_folder
from recveil.core.types import Attribute, FloatArray, IntArray
from recveil.metrics.power import TARGET_POWER, allow_for_learning, compute_advantage_error, compute_detection_threshold
from recveil.streaming.block_table import Table
from recveil.streaming.cloaked_table import scan_labels
from recveil.streaming.engines import TaskEngine, ThreadEngine
from recveil.streaming.labels import AttributeSource, Labels, check_targets
from recveil.streaming.passes import RowTask, SampleTask, stack_rows
from recveil.streaming.sketch import Sketch, compute_key_limits
from recveil.streaming.target_columns import convert_views
from recveil.streaming.vector_layout import check_scale

__all__ = ["SampleDesign", "UserSample", "count_needed_users", "design_sample"]

MIN_USERS_PER_CLASS, MAX_USERS_PER_CLASS = 500, 1_000_000
"""Range in which the number of users of each class is searched."""


@dataclass(frozen=True, eq=False)
class UserSample:
    """Users drawn from a table.

    Attributes:
        ids: id of each user.
        x: vectors.
        targets: attributes, undisclosed ones included.
        rows: numbers of their rows in the table, in order.
    """

    ids: pa.Array
    x: FloatArray
    targets: list[Attribute]
    rows: IntArray

    def read_vectors(self, table: Table, engine: TaskEngine | None = None) -> FloatArray:
        """Read the vectors of the same users in a table with the same rows, such as the cloaked one."""
        task = RowTask(table, self.rows)
        return (engine or ThreadEngine()).reduce(task, table.list_spans(), stack_rows, "reading the users drawn")


@dataclass(frozen=True, eq=False)
class SampleDesign:
    """Which users of a table are drawn.

    The users with the smallest keys of each cell are drawn, and keys depend on the seed and the row number alone.

    Attributes:
        labels: cells of the table.
        counts: users of each cell.
        quota: users to draw from each cell.
        needed_users: users needed of each class, by target.
        seed: seed of the keys.
    """

    labels: Labels
    counts: IntArray
    quota: IntArray
    needed_users: dict[str, int]
    seed: int

    def draw_users(self, table: Table, engine: TaskEngine | None = None) -> UserSample:
        """Draw the users, in the order of the table."""
        work = SampleTask(table, self.labels, compute_key_limits(self.counts, self.quota), self.seed)
        candidates = (engine or ThreadEngine()).reduce(work, table.list_spans(), Sketch.merge, "drawing users")
        drawn = candidates.keep_smallest(self.quota)
        drawn = drawn.take_rows(np.argsort(drawn.rows))
        check_scale(float(np.abs(drawn.x).max()), float(drawn.x.std(axis=0, dtype=np.float64).max()), table.path)
        codes = self.labels.codes[drawn.cells]
        targets = [Attribute(t.name, codes[:, j].copy(), t.labels) for j, t in enumerate(self.labels.targets)]
        return UserSample(_read_ids(table, drawn.rows), drawn.x, targets, drawn.rows)

    def describe_sample(self, rows: int) -> str:
        """Describe the sample of a table with this many rows, for the report."""
        parts = []
        for name, classes in self.labels.count_classes(np.minimum(self.quota, self.counts)).items():
            sizes = ", ".join(f"{n:,} {label}" for label, n in classes.items())
            parts.append(f"{name}: {sizes} (needed of each: {self.needed_users[name]:,})")
        return (
            f"The table has {rows:,} users; the audit drew {int(self.quota.sum()):,} of them, by class, as many as its "
            f"power statement asks for. {'; '.join(parts)}. Accuracy is that among the users drawn, not among all."
        )


def design_sample(
    table: Table,
    source: AttributeSource,
    rules: CrossValidation,
    margin: float,
    *,
    seed: int,
    engine: TaskEngine | None,
) -> SampleDesign:
    """Decide how many users of each class an audit needs, and which.

    Args:
        table: the table.
        source: where the attributes are.
        rules: cross-validation of the audit.
        margin: advantage that the audit must detect.
        seed: seed of the draw.
        engine: engine that runs the tasks; threads by default.

    Returns:
        The design, which draws the users.
    """
    check_targets(table, source)
    with make_temporary_folder() as folder:
        labels, counts = scan_labels(table, source, engine or ThreadEngine(), folder)
    needed = {t.name: count_needed_users(len(t.labels), table.d, rules, margin) for t in labels.targets}
    classes = labels.count_classes(counts)
    share = np.zeros(labels.n_cells)
    for j, target in enumerate(labels.targets):
        n = np.array([0, *classes[target.name].values()])
        class_share = np.where(n > 0, np.minimum(1.0, needed[target.name] / np.maximum(n, 1)), 0.0)
        share = np.maximum(share, class_share[labels.codes[:, j] + 1])  # a cell serves the target that needs most of it
    return SampleDesign(labels, counts, np.ceil(share * counts - 1e-9).astype(np.int64), needed, seed)


def count_needed_users(n_classes: int, d: int, rules: CrossValidation, margin: float) -> int:
    """Count the users of each class with which an audit has 95 % power.

    With them an advantage of `margin` is told from chance, and attacks that learn detect a leak of twice the margin.

    Args:
        n_classes: number of classes.
        d: dimensions of the vectors.
        rules: cross-validation of the audit.
        margin: advantage that the audit must detect.

    Returns:
        The number, from 500 to 1,000,000.
    """
    threshold = compute_detection_threshold(rules.folds, rules.repeats, rules.test_share)
    quantile = float(stats.norm.ppf(TARGET_POWER))
    known = rules.leak_ratio or 1 - 1 / rules.folds

    def is_enough(n: int) -> bool:
        error = compute_advantage_error(margin, [n] * n_classes)
        resolution = max(threshold * error, margin + quantile * error)
        detectable = allow_for_learning(resolution, [known * n] * n_classes, d)
        return threshold * error <= margin and detectable <= 2 * margin

    low, high = MIN_USERS_PER_CLASS, MAX_USERS_PER_CLASS
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle + 1, high)
    return high


def _read_ids(table: Table, rows: IntArray) -> pa.Array:
    """Read the ids of these rows, which are in order."""
    ids = []
    for span in table.list_spans():
        for block in table.read_blocks(span, [table.id_column], vectors=False):
            low, high = np.searchsorted(rows, [block.start, block.start + len(block.columns)])
            block_ids = convert_views(block.columns.column(table.id_column))
            ids.append(block_ids.take(pa.array(rows[low:high] - block.start)))
    return pa.chunked_array(ids).combine_chunks()
