"""Kernel ridge regression of the class, with Gaussian and Laplace kernels, class-balanced.

On tables with uneven activity it finds what trees and networks miss: classes that differ in small neighborhoods.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

import numpy as np

from recveil.attacks.attribute.classic import compute_balanced_weights
from recveil.core.option_types import Count, SeedNumber
from recveil.core.traits import AttackTraits
from recveil.core.types import FloatArray, IntArray
from recveil.transport.kernel_regression import MAX_LANDMARKS, KernelRegression, choose_setting

__all__ = ["KernelRidge"]

METHODS = (AttackTraits("kernel-ridge", builder="KernelRidge", panels=("full", "strong"), rank=95),)


@dataclass
class KernelRidge:
    """Kernel ridge regression of the class, class-balanced.

    Kernel, bandwidth and ridge are chosen on an inner split of up to 8,000 training users. Above 1,000 training users
    kernels are centered at 1,000 of them (Nystroem), and above `max_users` it learns from a sample, so that time grows
    linearly and is bounded.
    """

    max_users: Count = 50_000
    seed: SeedNumber = 0
    _regression: KernelRegression = field(init=False, repr=False)

    def fit(self, x: FloatArray, y: IntArray) -> Self:
        """Choose the setting and solve for the class indicators."""
        rng = np.random.default_rng(self.seed)
        if len(x) > self.max_users:
            rows = rng.permutation(len(x))[: self.max_users]
            rows = np.union1d(rows, np.unique(y, return_index=True)[1])  # at least one user of each class
            x, y = x[rows], y[rows]
        classes, codes = np.unique(y, return_inverse=True)
        targets, weights = np.eye(len(classes))[codes], compute_balanced_weights(codes)
        setting = choose_setting(x, targets, weights, rng)
        self._regression = KernelRegression(setting, x[rng.permutation(len(x))[:MAX_LANDMARKS]])
        self._regression.fit(self._regression.compute_features(x), targets, weights)
        return self

    def predict_proba(self, x: FloatArray) -> FloatArray:
        """Return the predicted class indicators, cut to probabilities."""
        beliefs = np.clip(self._regression.predict(self._regression.compute_features(x)), 1e-6, None)
        return np.asarray(beliefs / beliefs.sum(1, keepdims=True))
