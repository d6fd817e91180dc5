"""Class posteriors of user vectors, learned from the users who disclosed a class, and the same for numbers.

Ridge regression of the class indicators, or of normal scores of a number, on features of the vectors: the mean of the
models without each fold in turn, with the ridge that makes the least error on the users of the folds that were left
out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from recveil.core.types import FloatArray, IntArray
from recveil.defenses.embeddings.number_labels import compute_number_scores

__all__ = ["Posterior", "find_usable_classes", "fit_number_posterior", "fit_posterior"]

FOLDS = 5
RIDGES = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
"""Ridges to choose from by the error on held-out users, in mean variances of the features."""

MAX_USERS = 20_000
"""Disclosed users that the regression learns from."""

MIN_SPREAD_SHARE = 1e-3
"""Scores that vary less than this share of the first one are left out."""

MIN_EVIDENCE = 1.645
"""Correlation with the classes of held-out users that a score needs, in standard errors.

One score of random classes in twenty has as much, and hiding a score that tells nothing costs as much as another."""


@dataclass(frozen=True, eq=False)
class Posterior:
    """Scores of one attribute: the predicted indicators or normal scores, rotated to their principal axes.

    Axes that tell nothing of users whose class was held out are left out.

    Attributes:
        weights: (F, J) weights of the features.
        offsets: (J,) constant of each score.
    """

    weights: FloatArray
    offsets: FloatArray


@dataclass(frozen=True, eq=False)
class _FoldModel:
    """Models without one fold, one for each ridge: weights (R, F, K) and offsets (R, K)."""

    weights: FloatArray
    offsets: FloatArray


def fit_posterior(features: FloatArray, codes: IntArray, rng: np.random.Generator) -> Posterior | None:
    """Learn the posterior of one attribute; None if there are no two classes of two users, or nothing is learned.

    Args:
        features: one row for each user.
        codes: class of each user, -1 if undisclosed.
        rng: draws the folds.
    """
    usable = find_usable_classes(codes)
    if len(usable) < 2:
        return None
    order = np.where(np.isin(codes, usable), codes, -1)
    return _fit_scores(features, order, (codes[:, None] == usable).astype(np.float64), rng)


def fit_number_posterior(features: FloatArray, codes: IntArray, rng: np.random.Generator) -> Posterior | None:
    """Learn what vectors tell of a number; None if fewer than two for each fold are known, or nothing is learned.

    Args:
        features: one row for each user.
        codes: place of each user's number among the numbers, -1 if undisclosed.
        rng: draws the folds.
    """
    if (codes >= 0).sum() < 2 * FOLDS or codes.max() < 1:
        return None
    return _fit_scores(features, codes, compute_number_scores(codes), rng)


def _fit_scores(
    features: FloatArray, order: IntArray, all_targets: FloatArray, rng: np.random.Generator
) -> Posterior | None:
    """Regress the targets of users with an order of 0 or more on their features; the order stratifies the folds."""
    learned = rng.permutation(np.flatnonzero(order >= 0))[:MAX_USERS]
    learned = learned[np.argsort(order[learned], kind="stable")]  # users of a class in turn: stratified folds
    fold = np.arange(len(learned)) % FOLDS
    targets = all_targets[learned]
    models = [_fit_ridges(features[learned[fold != k]], targets[fold != k]) for k in range(FOLDS)]
    held_out = np.empty((len(RIDGES), *targets.shape))
    for k, model in enumerate(models):
        held_out[:, fold == k] = features[learned[fold == k]] @ model.weights + model.offsets[:, None]
    best = int(((held_out - targets) ** 2).mean((1, 2)).argmin())
    weights = np.mean([model.weights[best] for model in models], axis=0)
    offsets = np.mean([model.offsets[best] for model in models], axis=0)
    guesses = features @ weights + offsets
    center = guesses.mean(0)
    _, spread, axes = np.linalg.svd(guesses - center, full_matrices=False)
    tells = _weigh_evidence(held_out[best] @ axes.T, targets @ axes.T) > MIN_EVIDENCE
    kept = axes[tells & (spread > max(MIN_SPREAD_SHARE * spread[0], 1e-300))].T
    if not kept.shape[1]:
        return None
    return Posterior(weights @ kept, (offsets - center) @ kept)


def find_usable_classes(codes: IntArray) -> IntArray:
    """Return the classes of at least two users."""
    return np.flatnonzero(np.bincount(codes[codes >= 0], minlength=1) >= 2)


def _weigh_evidence(guesses: FloatArray, targets: FloatArray) -> FloatArray:
    """Return the correlation of each column of guesses with that of the targets, in its standard errors."""
    a, b = guesses - guesses.mean(0), targets - targets.mean(0)
    length = np.sqrt((a**2).sum(0) * (b**2).sum(0))
    return np.asarray((a * b).sum(0) / np.where(length > 0, length, 1.0) * np.sqrt(len(targets)))


def _fit_ridges(features: FloatArray, targets: FloatArray) -> _FoldModel:
    """Regress the targets on the features with each ridge, from one eigendecomposition."""
    center, mean = features.mean(0), targets.mean(0)
    centered = features - center
    values, vectors = np.linalg.eigh(centered.T @ centered / len(features))
    loads = vectors.T @ (centered.T @ (targets - mean) / len(features))
    unit = max(float(values.mean()), 1e-300)
    weights = np.stack([vectors @ (loads / (values.clip(0) + ridge * unit)[:, None]) for ridge in RIDGES])
    return _FoldModel(weights, mean - np.einsum("f,rfk->rk", center, weights))
