"""Who leaks more: the guesses of an audit among users who did little, and among users who did much."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from recveil.audits.attribute.folds import Trial
from recveil.audits.attribute.leak_map import FEWEST
from recveil.audits.verdicts import TargetAudit
from recveil.core.types import IntArray
from recveil.metrics import leakage
from recveil.metrics.intervals import corrected_t, estimate_advantage

__all__ = ["by_activity"]

PARTS = (10, 5, 4, 3, 2)
"""Into how many groups of equal size the users are cut: as many as leave every class users enough in each group."""


def by_activity(result: TargetAudit, activity: IntArray, *, test_share: float) -> list[dict[str, Any]]:
    """How well the attacker that spoke for the panel most often did in each group of users, the least active first.

    Deciles of the number of interactions, or fewer groups where a decile would hold fewer than ten users of a class;
    nothing where two groups do. Users with equally many interactions are never parted, so groups can differ in size.
    `over` and `up_to` are the bounds of a group, None at either end. Guesses are relabelled as for the advantage.

    Args:
        result: the audit.
        activity: interactions of each row of the audited table.
        test_share: n_test / n_train, of the rules of the audit.
    """
    K, acts = len(result.labels), np.asarray(activity, dtype=np.int64)[result.users]
    trials = result.played[result.headline_attack]
    codes = np.empty(len(acts), dtype=np.int64)
    for trial in trials:
        codes[trial.test.users] = trial.test.truth
    edges = _edges(acts, codes, K)
    if not len(edges):
        return []
    group = np.searchsorted(edges, acts)
    scores = _scores(trials, group, len(edges) + 1, K)  # (trials, groups)
    signed = leakage.advantage(scores, K)
    bounds = [None, *map(int, edges), None]
    return [
        {
            "over": bounds[q],
            "up_to": bounds[q + 1],
            "n": (n := int((group == q).sum())),
            "balanced_accuracy": corrected_t(scores[:, q], test_share, n).to_dict(),
            "advantage": estimate_advantage(signed[:, q], test_share, n).to_dict(),
        }
        for q in range(len(edges) + 1)
    ]


def _edges(acts: IntArray, codes: IntArray, n_classes: int) -> IntArray:
    """The largest number of interactions in each group but the last; empty where the users cannot be cut."""
    for parts in PARTS:
        edges: IntArray = np.unique(np.quantile(acts, np.arange(1, parts) / parts, method="lower")).astype(np.int64)
        edges = edges[edges < acts.max()]
        cells = np.bincount(np.searchsorted(edges, acts) * n_classes + codes, minlength=(len(edges) + 1) * n_classes)
        if len(edges) and cells.min() >= FEWEST:
            return edges
    return np.empty(0, dtype=np.int64)


def _scores(trials: list[Trial], group: IntArray, n_groups: int, n_classes: int) -> NDArray[np.float64]:
    """(trials, groups) balanced accuracy; the mean over trials is that of all guesses taken together.

    A fold can lack a class in a group, so it does not score alone: each trial adds how far its hits are from what the
    recall of all trials lets expect for the users it met (the ratio estimator, linearized).
    """
    J, size = len(trials), n_groups * n_classes
    users, hits = np.zeros((J, size)), np.zeros((J, size))
    for j, trial in enumerate(trials):
        inner = leakage.confusion(trial.inner.truth, trial.inner.score.argmax(1), n_classes)
        right = leakage.relabelling(inner)[trial.test.score.argmax(1)] == trial.test.truth
        cell = group[trial.test.users] * n_classes + trial.test.truth
        users[j] = np.bincount(cell, minlength=size)
        hits[j] = np.bincount(cell, weights=right, minlength=size)
    total = users.sum(axis=0)
    recall = hits.sum(axis=0) / total
    score = recall + J * (hits - recall * users) / total
    balanced: NDArray[np.float64] = score.reshape(J, n_groups, n_classes).mean(axis=2)
    return balanced
