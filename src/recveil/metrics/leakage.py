"""How much an attack learned: scores of hard and soft guesses, two-sided and right for any number of classes.

An attacker that is always wrong knows as much as one that is always right. So every prediction j is first relabelled as
g(j), the class it speaks for most, where g is learned on *inner* folds and never on the users under attack; the
advantage is the balanced accuracy after that, scaled so that chance is 0 and certainty is 1.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from scipy import stats

from recveil.core.types import FloatArray, IntArray

__all__ = [
    "accuracy",
    "compute_advantage",
    "compute_class_aucs",
    "balanced_accuracy",
    "compute_confusion",
    "compute_guessing_power",
    "macro_f1",
    "compute_rates",
    "compute_recalls",
    "learn_relabeling",
]

Numbers = TypeVar("Numbers", float, FloatArray)


def compute_confusion(truth: IntArray, predicted: IntArray, n_classes: int) -> FloatArray:
    """Counts, rows the true class, columns the prediction."""
    cells = np.bincount(truth * n_classes + predicted, minlength=n_classes * n_classes)
    return cells.reshape(n_classes, n_classes).astype(np.float64)


def compute_rates(counts: FloatArray) -> FloatArray:
    """M_kj = P(predict j | class k); rows without users are NaN."""
    total = counts.sum(1, keepdims=True)
    shares: FloatArray = np.divide(counts, total, out=np.full_like(counts, np.nan), where=total > 0)
    return shares


def compute_recalls(counts: FloatArray) -> FloatArray:
    """The share of each class that was guessed right; NaN where the class has no users."""
    return np.diagonal(compute_rates(counts)).copy()


def balanced_accuracy(counts: FloatArray) -> float:
    """The mean recall over the classes that occur."""
    return float(np.nanmean(compute_recalls(counts)))


def accuracy(counts: FloatArray) -> float:
    """The share of users guessed right (what some papers call micro-F1)."""
    return float(np.trace(counts) / counts.sum())


def macro_f1(counts: FloatArray) -> float:
    """The mean over classes of 2 TP / (2 TP + FP + FN); a class never predicted and never right counts 0."""
    hits = np.diagonal(counts)
    total = counts.sum(0) + counts.sum(1)
    present = counts.sum(1) > 0
    return float(np.mean(2 * hits[present] / total[present]))


def compute_class_aucs(truth: IntArray, score: FloatArray) -> FloatArray:
    """One-vs-rest area under the ROC curve of each class, ties counted half; NaN where a class is absent or alone."""
    ranks = stats.rankdata(score, axis=0)  # (n, K)
    member = truth[:, None] == np.arange(score.shape[1])  # (n, K)
    n_in, n_out = member.sum(0), (~member).sum(0)
    pairs = n_in * n_out
    wins = (ranks * member).sum(0) - n_in * (n_in + 1) / 2
    areas: FloatArray = np.divide(wins, pairs, out=np.full(score.shape[1], np.nan), where=pairs > 0)
    return areas


def learn_relabeling(inner_counts: FloatArray) -> IntArray:
    """g(j) = argmax_k M_kj on the inner folds: the class that prediction j speaks for most (ties keep j)."""
    M = np.nan_to_num(compute_rates(inner_counts))
    M = M + 1e-12 * np.eye(len(M))
    return np.asarray(np.argmax(M, axis=0), dtype=np.int64)


def compute_guessing_power(inner_counts: FloatArray) -> float:
    """sum_j max_k M_kj: K times the balanced accuracy of the best relabelling. The headline has the largest."""
    return float(np.nan_to_num(compute_rates(inner_counts)).max(0).sum())


def compute_advantage(balanced: Numbers, n_classes: int) -> Numbers:
    """Scale balanced accuracies BAcc* to (K BAcc* - 1) / (K - 1): 0 at chance, 1 at certainty.

    Not floored at 0, so that folds can be averaged.
    """
    return (n_classes * balanced - 1) / (n_classes - 1)
