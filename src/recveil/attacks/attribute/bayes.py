"""Gaussian classes with equal priors: linear discriminant and naive Bayes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

import numpy as np
from sklearn.covariance import ledoit_wolf_shrinkage
from sklearn.naive_bayes import GaussianNB

from recveil.attacks.attribute.classic import compute_balanced_weights, softmax
from recveil.core.option_types import PositiveFloat, SeedNumber
from recveil.core.traits import AttackTraits
from recveil.core.types import FloatArray, IntArray

__all__ = ["LinearDiscriminant", "NaiveBayes"]

METHODS = (
    AttackTraits("lda", builder="LinearDiscriminant", panels=("full",), rank=40),
    AttackTraits("naive-bayes", builder="NaiveBayes", panels=("full",), rank=60),
)


@dataclass
class LinearDiscriminant:
    """Linear discriminant analysis with equal priors.

    Classes have equal weights in the shared covariance, which is shrunk by the amount of Ledoit and Wolf (2004), so
    that more columns than users do no harm.
    """

    seed: SeedNumber = 0
    _slopes: FloatArray = field(init=False, repr=False)
    _offsets: FloatArray = field(init=False, repr=False)

    def fit(self, x: FloatArray, y: IntArray) -> Self:
        """Learn the class means and the covariance within classes."""
        classes, codes = np.unique(y, return_inverse=True)
        means = np.stack([x[codes == k].mean(0) for k in range(len(classes))])
        within = x - means[codes]
        shrink = max(float(ledoit_wolf_shrinkage(within, assume_centered=True)), 1e-9)
        covariance = (within * compute_balanced_weights(y)[:, None]).T @ within / len(x)
        mu = max(float(np.trace(covariance)) / x.shape[1], 1e-12)
        # Divided by mu first, the smallest eigenvalue is at least `shrink` in any unit of the columns.
        shrunk = (1 - shrink) * covariance / mu + shrink * np.eye(x.shape[1])
        self._slopes = np.linalg.solve(shrunk, means.T) / mu
        self._offsets = 0.5 * np.einsum("kd,dk->k", means, self._slopes)
        return self

    def predict_proba(self, x: FloatArray) -> FloatArray:
        """Return the posterior of each class under equal priors."""
        return softmax(x @ self._slopes - self._offsets)


@dataclass
class NaiveBayes:
    """Gaussian naive Bayes with equal priors.

    `smoothing` (a share of the largest variance) keeps a column in which a class does not vary from deciding alone.
    """

    smoothing: PositiveFloat = 1e-3
    seed: SeedNumber = 0
    _model: GaussianNB = field(init=False, repr=False)

    def fit(self, x: FloatArray, y: IntArray) -> Self:
        """Learn each column's mean and variance in each class."""
        K = len(np.unique(y))
        self._model = GaussianNB(priors=np.full(K, 1 / K), var_smoothing=self.smoothing).fit(x, y)
        self._model.var_ = np.maximum(self._model.var_, 1e-12)  # where nothing varies at all
        return self

    def predict_proba(self, x: FloatArray) -> FloatArray:
        """Return the posterior of each class under equal priors."""
        guess: FloatArray = self._model.predict_proba(x)
        return guess
