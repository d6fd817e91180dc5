"""Attack accuracy by user activity."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from recveil.audits.attribute.folds import FoldTrial
from recveil.audits.attribute.leak_map import MIN_USERS_PER_NUMBER
from recveil.audits.verdicts import TargetAudit
from recveil.core.result_parts import ActivityGroup
from recveil.core.types import IntArray
from recveil.metrics import leakage
from recveil.metrics.intervals import estimate_advantage, estimate_corrected_mean

__all__ = ["audit_by_activity"]

GROUP_COUNTS = (10, 5, 4, 3, 2)
"""Numbers of groups that are tried in turn until every class has users enough in each group."""


def audit_by_activity(result: TargetAudit, activity: IntArray, *, test_share: float) -> list[ActivityGroup]:
    """Return how well the headline attack does in each group of users, the least active first.

    Groups are deciles of the number of interactions, or fewer where a decile would hold fewer than ten users of a
    class; none where two groups would. Users with equally many interactions are never separated, so groups can differ
    in size. Predictions are relabelled as for the advantage.

    Args:
        result: the audit.
        activity: interactions of each row of the audited table.
        test_share: attacked users over known users.
    """
    K, counts = len(result.labels), np.asarray(activity, dtype=np.int64)[result.users]
    trials = result.trials[result.headline_attack]
    codes = np.empty(len(counts), dtype=np.int64)
    for trial in trials:
        codes[trial.test.users] = trial.test.truth
    edges = _choose_edges(counts, codes, K)
    if not len(edges):
        return []
    group = np.searchsorted(edges, counts)
    scores = _score_groups(trials, group, len(edges) + 1, K)  # (trials, groups)
    bounds = [None, *map(int, edges), None]
    sizes = np.bincount(group, minlength=len(edges) + 1)
    return [
        ActivityGroup(
            over=bounds[g],
            up_to=bounds[g + 1],
            n=int(sizes[g]),
            balanced_accuracy=estimate_corrected_mean(scores[:, g], test_share, int(sizes[g]), lowest=0.0, highest=1.0),
            advantage=estimate_advantage(leakage.compute_advantage(scores[:, g], K), test_share, int(sizes[g])),
        )
        for g in range(len(edges) + 1)
    ]


def _choose_edges(counts: IntArray, codes: IntArray, n_classes: int) -> IntArray:
    """Return the largest number of interactions in each group but the last; empty where users cannot be grouped."""
    for parts in GROUP_COUNTS:
        edges: IntArray = np.unique(np.quantile(counts, np.arange(1, parts) / parts, method="lower")).astype(np.int64)
        edges = edges[edges < counts.max()]
        cells = np.bincount(np.searchsorted(edges, counts) * n_classes + codes, minlength=(len(edges) + 1) * n_classes)
        if len(edges) and cells.min() >= MIN_USERS_PER_NUMBER:
            return edges
    return np.empty(0, dtype=np.int64)


def _score_groups(trials: list[FoldTrial], group: IntArray, n_groups: int, n_classes: int) -> NDArray[np.float64]:
    """Return (trials, groups) balanced accuracy; the mean over trials is that of all predictions together.

    A fold can lack a class in a group, so it does not score alone: each trial adds how far its hits are from those
    expected from the recall of all trials (the linearized ratio estimator).
    """
    J, size = len(trials), n_groups * n_classes
    users, hits = np.zeros((J, size)), np.zeros((J, size))
    for j, trial in enumerate(trials):
        inner = leakage.compute_confusion(trial.inner.truth, trial.inner.score.argmax(1), n_classes)
        right = leakage.learn_relabeling(inner)[trial.test.score.argmax(1)] == trial.test.truth
        cell = group[trial.test.users] * n_classes + trial.test.truth
        users[j] = np.bincount(cell, minlength=size)
        hits[j] = np.bincount(cell, weights=right, minlength=size)
    total = users.sum(axis=0)
    recall = hits.sum(axis=0) / total
    score = recall + J * (hits - recall * users) / total
    balanced: NDArray[np.float64] = score.reshape(J, n_groups, n_classes).mean(axis=2)
    return balanced
