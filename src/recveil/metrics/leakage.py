"""Attack scores that are two-sided and correct for any number of classes.

An attacker that is always wrong knows as much as one that is always right. So every prediction j is first relabeled as
g(j) = argmax_k M_kj, the class that it indicates most, where M_kj = P(predict j | class k). The relabeling g is learned
on *inner* folds and never on the users under attack. The advantage is the balanced accuracy after relabeling, scaled
so that chance is 0 and certainty is 1.
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
"""A number, or an array of them."""


def compute_confusion(truth: IntArray, predicted: IntArray, n_classes: int) -> FloatArray:
    """Count predictions by class: rows are the true class, columns the predicted one."""
    cells = np.bincount(truth * n_classes + predicted, minlength=n_classes * n_classes)
    return cells.reshape(n_classes, n_classes).astype(np.float64)


def compute_rates(counts: FloatArray) -> FloatArray:
    """Compute M_kj = P(predict j | class k) from counts; rows without users are NaN."""
    total = counts.sum(1, keepdims=True)
    shares: FloatArray = np.divide(counts, total, out=np.full_like(counts, np.nan), where=total > 0)
    return shares


def compute_recalls(counts: FloatArray) -> FloatArray:
    """Compute the share of each class guessed right; NaN for a class without users."""
    return np.diagonal(compute_rates(counts)).copy()


def balanced_accuracy(counts: FloatArray) -> float:
    """Return the mean recall over the classes that occur."""
    return float(np.nanmean(compute_recalls(counts)))


def accuracy(counts: FloatArray) -> float:
    """Return the share of users guessed right, which some papers call micro-F1."""
    return float(np.trace(counts) / counts.sum())


def macro_f1(counts: FloatArray) -> float:
    """Return the mean over classes of 2 TP / (2 TP + FP + FN).

    A class that occurs but is never predicted counts 0; classes without users are left out.
    """
    hits = np.diagonal(counts)
    total = counts.sum(0) + counts.sum(1)
    present = counts.sum(1) > 0
    return float(np.mean(2 * hits[present] / total[present]))


def compute_class_aucs(truth: IntArray, score: FloatArray) -> FloatArray:
    """Compute the one-vs-rest area under the ROC curve of each class; ties count half.

    The area of a class is NaN if it has no users or all of them.
    """
    ranks = stats.rankdata(score, axis=0)  # (n, K)
    member = truth[:, None] == np.arange(score.shape[1])  # (n, K)
    n_in, n_out = member.sum(0), (~member).sum(0)
    pairs = n_in * n_out
    wins = (ranks * member).sum(0) - n_in * (n_in + 1) / 2
    areas: FloatArray = np.divide(wins, pairs, out=np.full(score.shape[1], np.nan), where=pairs > 0)
    return areas


def learn_relabeling(inner_counts: FloatArray) -> IntArray:
    """Learn g(j) = argmax_k M_kj, the class that prediction j indicates most.

    Learn it on the inner folds. Ties keep j.
    """
    M = np.nan_to_num(compute_rates(inner_counts))
    M = M + 1e-12 * np.eye(len(M))
    return np.asarray(np.argmax(M, axis=0), dtype=np.int64)


def compute_guessing_power(inner_counts: FloatArray) -> float:
    """Compute sum_j max_k M_kj: K times the best relabeled balanced accuracy.

    The attack with the largest value on the inner folds speaks for the attacker panel.
    """
    return float(np.nan_to_num(compute_rates(inner_counts)).max(0).sum())


def compute_advantage(balanced: Numbers, n_classes: int) -> Numbers:
    """Scale balanced accuracies BAcc to advantages (K BAcc - 1) / (K - 1).

    The advantage is 0 at chance and 1 at certainty.

    The advantage is not floored at 0, so that folds can be averaged.
    """
    return (n_classes * balanced - 1) / (n_classes - 1)
