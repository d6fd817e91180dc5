"""What rows tell of their classes, by several kinds of learners together, and how much of it chance gives.

Kernel ridge regression finds classes that differ in small neighborhoods, quadratic discriminants those that differ in
directions in which users hardly vary, and boosted trees those that differ in single columns. Where attackers see more
than the rows, as which items score high for each, a linear discriminant learns from all they see: these columns are
many, and follow from the rows in ways that the other learners find hardly anything in. Each is cross-fitted. The class
shares at a row are those of a conditional logit of the classes on the scores, with weights of 0 or more; its gain in
log-likelihood is the evidence. If rows tell nothing, each weight is 0 as often as not, and the evidence has
a mixture of chi-squared distributions. Twice the gain would have it if scores did not depend on the labels; but each of
two users is scored by the label of the other, so their products count twice, which doubles the variance.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import brentq, minimize
from scipy.special import log_softmax, softmax
from scipy.stats import binom, chi2
from sklearn.ensemble import HistGradientBoostingClassifier

from recveil.core.types import FloatArray, IntArray
from recveil.transport.kernel_regression import choose_settings, compute_kernel, solve_ridges, standardize_columns
from recveil.transport.polar_coordinates import PolarCoordinates

__all__ = ["ClassEvidence", "weigh_evidence"]

FOLDS = 4
"""Folds of the cross-fitted learners."""

SIGNIFICANCE = 0.05
"""Probability below which evidence is more than chance gives."""

MAX_USERS_OF_KERNEL = 12_000
"""Users whose kernel matrix is held; more are cut at random into parts, each of which learns from its own users."""

MAX_CLASSES_OF_TREES = 8
"""Above so many classes trees, one for each class, take too long."""

MIN_SCALE = 1e-6
"""Directions with less than this share of the largest scale are not looked at."""

MAX_SCORE = 4.0
"""Largest score, in standard deviations."""


@dataclass(frozen=True, eq=False)
class ClassEvidence:
    """Class shares at each row, and how far they are from chance.

    Attributes:
        shares: (n, K) shares of the classes, cross-fitted.
        statistic: gain in log-likelihood over the overall shares.
        limit: statistic that random labels rarely exceed.
    """

    shares: FloatArray
    statistic: float
    limit: float

    @property
    def is_beyond_chance(self) -> bool:
        """Whether random labels would rarely give so much."""
        return self.statistic > self.limit

    @property
    def chance_shares(self) -> FloatArray:
        """Class shares that differ from the overall ones in the same places, but only as much as chance may make them.

        The statistic is quadratic in the differences, so they are scaled by the root of its limit over itself. A
        smaller goal, such as its mean, would fit the sample: attackers then fall below chance.
        """
        scale = min(1.0, np.sqrt(self.limit / max(self.statistic, 1e-300)))
        overall = self.shares.mean(0)
        return np.asarray(overall + scale * (self.shares - overall))


def weigh_evidence(
    x: FloatArray,
    labels: IntArray,
    rng: np.random.Generator,
    device: str | torch.device = "cpu",
    *,
    enough: float = np.inf,
    exposed: FloatArray | None = None,
) -> ClassEvidence:
    """Measure what rows tell of their labels.

    Args:
        x: rows.
        labels: class of each row, from 0 on without gaps.
        rng: source of the folds.
        device: where the kernel regression is computed.
        enough: evidence above which it does not matter how much there is: if the other learners find more, the kernel,
            which takes most of the time, is left out. It could only add to it.
        exposed: what attackers see of each row, if more than the row; a linear discriminant looks at it.
    """
    K = int(labels.max()) + 1
    if K < 2:
        return ClassEvidence(np.ones((len(x), 1)), 0.0, _find_limit(1))
    labels = labels.astype(np.intp)
    order = rng.permutation(len(labels))
    fold = np.empty(len(labels), dtype=np.int64)
    fold[order[np.argsort(labels[order], kind="stable")]] = np.arange(len(labels)) % FOLDS
    scores = [_standardize_scores(_score_by_moments(x, labels, fold, K))]
    if K <= MAX_CLASSES_OF_TREES:
        scores.append(_standardize_scores(_score_by_trees(x, labels, fold, K)))
    if exposed is not None:
        wide = standardize_columns(exposed)  # rows and what is seen beside them may be of any two scales
        scores.append(_standardize_scores(_score_by_moments(wide, labels, fold, K, linear=True)))
    quick = _fit_shares(np.stack(scores), labels) if enough < np.inf else None
    if quick is not None and quick.statistic > max(enough, quick.limit):
        return quick
    scores.insert(0, _standardize_scores(_score_by_kernels(x, labels, fold, order, K, device)))
    return _fit_shares(np.stack(scores), labels)


def _fit_shares(scores: FloatArray, labels: NDArray[np.intp]) -> ClassEvidence:
    """Fit the weight of each learner, the same for all classes, to scores of shape (learners, n, K)."""
    rows, base = np.arange(len(labels)), np.log(np.bincount(labels) / len(labels))

    def lose(weights: FloatArray) -> tuple[float, FloatArray]:
        logits = base + np.tensordot(weights, scores, 1)
        rest = softmax(logits, axis=1)
        value = -log_softmax(logits, axis=1)[rows, labels].sum()
        rest[rows, labels] -= 1
        return float(value), np.tensordot(scores, rest, 2)

    zero = np.zeros(len(scores))
    best = minimize(lose, zero, jac=True, method="L-BFGS-B", bounds=[(0.0, None)] * len(zero))
    statistic = max(0.0, lose(zero)[0] - float(best.fun))
    shares = softmax(base + np.tensordot(best.x, scores, 1), axis=1)
    return ClassEvidence(shares, statistic, _find_limit(len(scores)))


def _compute_p_value(statistic: float, n_learners: int) -> float:
    """Return how often random labels give so much evidence, if half of the weights are 0 (Chernoff 1954)."""
    positive = np.arange(1, n_learners + 1)
    return float((binom.pmf(positive, n_learners, 0.5) * chi2.sf(statistic, positive)).sum())


@cache
def _find_limit(n_learners: int) -> float:
    """Return the statistic that random labels exceed with probability `SIGNIFICANCE`."""
    return float(brentq(lambda statistic: _compute_p_value(statistic, n_learners) - SIGNIFICANCE, 0.0, 100.0))


def _standardize_scores(scores: FloatArray) -> FloatArray:
    """Give the scores of each row mean 0 and all of them together variance 1."""
    centered = scores - scores.mean(-1, keepdims=True)
    return np.asarray((centered / max(float(centered.std()), 1e-12)).clip(-MAX_SCORE, MAX_SCORE))


def _score_by_kernels(
    x: FloatArray, labels: NDArray[np.intp], fold: IntArray, order: IntArray, K: int, device: str | torch.device
) -> FloatArray:
    """Score each part of the users by a kernel regression of its own; the order shuffles them."""
    out, n_parts = np.empty((len(x), K)), -(-len(x) // MAX_USERS_OF_KERNEL)
    for part in np.array_split(order, n_parts):
        rows = np.sort(part)
        shuffled = np.searchsorted(rows, part)
        out[rows] = _score_by_kernel(x[rows], labels[rows], fold[rows], shuffled, K, device)
    return out


def _score_by_kernel(
    x: FloatArray, labels: NDArray[np.intp], fold: IntArray, order: IntArray, K: int, device: str | torch.device
) -> FloatArray:
    """Regress the class indicators on the rows in polar coordinates; the score is the logarithm of the share."""
    places = torch.as_tensor(standardize_columns(PolarCoordinates.fit(x).encode(x)), device=device)
    columns = 1 if K == 2 else K  # the second of two classes is the rest of the first
    targets = torch.as_tensor(np.eye(K, dtype=np.float32)[labels][:, :columns], device=places.device)
    shuffled = torch.as_tensor(order, device=places.device)
    [setting] = choose_settings(places[shuffled], targets[shuffled], torch.ones_like(targets[:, :1]))
    gram = compute_kernel(places, places, setting)
    # One solution for all folds: of the columns of a fold only the rows that it leaves out are used.
    folds = torch.as_tensor(fold, device=places.device)
    is_known = (folds[:, None] != torch.arange(FOLDS, device=places.device)).to(targets.dtype)
    weights = is_known.repeat_interleave(columns, 1)
    guesses = solve_ridges(gram, targets.repeat(1, FOLDS), weights, [setting.ridge]).guesses[0]
    rows = torch.arange(len(folds), device=places.device)
    predicted = guesses.reshape(-1, FOLDS, columns)[rows, folds]
    found = predicted.cpu().numpy().astype(np.float64)
    shares = np.hstack([found, 1 - found]) if K == 2 else found
    present = np.bincount(labels, minlength=K).clip(1) / len(x)  # a part may lack a rare class
    return np.asarray(np.log(shares.clip(1e-4, 1.0) / present))


def _score_by_moments(
    x: FloatArray, labels: NDArray[np.intp], fold: IntArray, K: int, *, linear: bool = False
) -> FloatArray:
    """Score by the normal density of each class, in directions in which all users together have variance 1.

    With `linear` all classes have that covariance, and only their means count.
    """
    wide = np.asarray(x, dtype=np.float64)
    _, scale, axes = np.linalg.svd(np.cov((wide - wide.mean(0)).T, ddof=0).reshape(x.shape[1], -1))
    kept = scale > MIN_SCALE**2 * scale[0]
    z = (wide - wide.mean(0)) @ axes[kept].T / np.sqrt(scale[kept])
    out = np.zeros((len(x), K))
    for k in range(FOLDS):
        out[fold == k] = _score_densities(z[fold != k], labels[fold != k], z[fold == k], K, linear=linear)
    return out


def _score_densities(z: FloatArray, labels: IntArray, rows: FloatArray, K: int, *, linear: bool) -> FloatArray:
    """Return the log density of each class; a class of too few users has that of all users."""
    scores = np.repeat(-0.5 * np.square(rows).sum(1, keepdims=True), K, axis=1)
    d = z.shape[1]
    for k in range(K):
        own = z[labels == k]
        if len(own) < 2 or not d:
            continue
        if linear:
            scores[:, k] = -0.5 * np.square(rows - own.mean(0)).sum(1)
            continue
        pooled = d / (d + len(own))  # covariances of few users are drawn to that of all
        C = (1 - pooled) * np.cov(own.T, ddof=0).reshape(d, d) + pooled * np.eye(d)
        root = np.linalg.cholesky(C)
        gaps = np.linalg.solve(root, (rows - own.mean(0)).T)
        scores[:, k] = -0.5 * np.square(gaps).sum(0) - np.log(root.diagonal()).sum()
    return scores


def _score_by_trees(x: FloatArray, labels: NDArray[np.intp], fold: IntArray, K: int) -> FloatArray:
    """Score by the logarithm of the class probabilities of boosted trees, where they have two classes to learn."""
    out = np.zeros((len(x), K))
    for k in range(FOLDS):
        test, shares = fold == k, np.bincount(labels[fold != k], minlength=K) / (fold != k).sum()
        if not test.any() or np.count_nonzero(shares) < 2:
            continue
        trees = HistGradientBoostingClassifier(
            max_iter=40, learning_rate=0.15, max_leaf_nodes=15, early_stopping=False, random_state=0
        )
        trees.fit(x[~test], labels[~test])
        guesses = trees.predict_proba(x[test]).clip(1e-4)
        out[np.ix_(test, trees.classes_)] = np.log(guesses / shares[trees.classes_])
    return out
