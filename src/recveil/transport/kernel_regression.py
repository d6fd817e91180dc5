"""Kernel ridge regression, with the kernel, its bandwidth and the ridge chosen on held-out rows.

The prediction for row x is sum_i a_i k(x, x_i) with a = (K + ridge / weights)^-1 (targets - mean). Read as a Gaussian
process, the ridge is the variance of the noise over that of the signal, which does not change with the number of rows.
So a setting that was chosen on a part of the rows is used for all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy.spatial.distance import cdist

from recveil.core.types import FloatArray

__all__ = ["KernelRegression", "KernelSetting", "choose_setting", "standardize_columns"]

KERNELS = ("rbf", "laplace")
BANDWIDTHS = (0.35, 1.0)
"""Bandwidths to choose from, relative to the median distance of two rows."""

RIDGES = (0.3, 3.0, 30.0)
"""Ridges to choose from: noise variance over signal variance."""

MAX_ROWS_TO_CHOOSE = 8_000
"""Rows on which the setting is chosen. With few rows a weak signal in small neighborhoods is not seen, and a setting
is chosen that misses it with many rows too."""

MAX_LANDMARKS = 1_000
"""Rows at which kernels are centered; with fewer rows than this the regression is exact, with more it is Nystroem's."""

BLOCK_ROWS = 8_192
"""Rows whose kernel values are held at once."""


@dataclass(frozen=True)
class KernelSetting:
    """A kernel, its bandwidth in units of distance, the ridge, and the squared error on held-out rows."""

    kernel: str
    bandwidth: float
    ridge: float
    error: float = np.inf


def standardize_columns(x: FloatArray) -> FloatArray:
    """Give all columns mean 0 and variance 1; columns that do not vary become 0."""
    wide = np.asarray(x, dtype=np.float64)
    centered, spread = wide - wide.mean(0), wide.std(0)
    varies = spread > 1e-9 * np.abs(wide).max(0, initial=0.0)
    return np.asarray(np.where(varies, centered, 0.0) / np.where(varies, spread, 1.0), dtype=np.float32)


def choose_setting(x: FloatArray, targets: FloatArray, weights: FloatArray, rng: np.random.Generator) -> KernelSetting:
    """Choose the setting with the least weighted squared error on a quarter of the rows.

    Args:
        x: standardized rows.
        targets: (n, K) numbers to predict.
        weights: weight of each row.
        rng: source of the rows and of the split.
    """
    rows = rng.permutation(len(x))[:MAX_ROWS_TO_CHOOSE]
    cut = max(1, (3 * len(rows)) // 4)
    train, test = rows[:cut], rows[cut:] if cut < len(rows) else rows[:1]
    landmarks = x[train[:MAX_LANDMARKS]]
    unit = float(np.median(cdist(landmarks, landmarks))) or 1.0
    best = KernelSetting(KERNELS[0], unit, RIDGES[-1])
    for kernel, width in product(KERNELS, BANDWIDTHS):
        regression = KernelRegression(KernelSetting(kernel, width * unit, RIDGES[0]), landmarks)
        of_train, of_test = (regression.compute_features(x[part]) for part in (train, test))
        for ridge in RIDGES:
            regression.setting = KernelSetting(kernel, width * unit, ridge)
            guess = regression.fit(of_train, targets[train], weights[train]).predict(of_test)
            error = float(np.average(np.square(guess - targets[test]).sum(1), weights=weights[test]))
            if error < best.error:
                best = KernelSetting(kernel, width * unit, ridge, error)
    return best


class KernelRegression:
    """A fitted kernel regression with weights for the rows; exact up to `MAX_LANDMARKS` rows."""

    def __init__(self, setting: KernelSetting, landmarks: FloatArray) -> None:
        self.setting, self.landmarks = setting, landmarks
        gram = _apply_kernel(setting.kernel, cdist(landmarks, landmarks), setting.bandwidth)
        values, vectors = np.linalg.eigh(gram)
        varies = values > 1e-8 * values[-1]
        self._root = vectors[:, varies] / np.sqrt(values[varies])

    def compute_features(self, x: FloatArray) -> FloatArray:
        """Return features whose products are the kernel (of rows among the landmarks exactly)."""
        blocks = (x[start : start + BLOCK_ROWS] for start in range(0, len(x), BLOCK_ROWS))
        parts = [
            _apply_kernel(self.setting.kernel, cdist(block, self.landmarks), self.setting.bandwidth) @ self._root
            for block in blocks
        ]
        return np.concatenate(parts) if parts else np.empty((0, self._root.shape[1]))

    def fit(self, features: FloatArray, targets: FloatArray, weights: FloatArray) -> KernelRegression:
        """Fit weighted targets on features of the training rows."""
        self._mean = np.average(targets, axis=0, weights=weights)
        weighted = features * weights[:, None]
        gram = weighted.T @ features
        gram[np.diag_indices_from(gram)] += self.setting.ridge
        self._coefficients = np.linalg.solve(gram, weighted.T @ (targets - self._mean))
        return self

    def predict(self, features: FloatArray) -> FloatArray:
        """Predict the targets of rows from their features."""
        return np.asarray(features @ self._coefficients + self._mean)


def _apply_kernel(kernel: str, distances: FloatArray, bandwidth: float) -> FloatArray:
    scaled = distances / max(bandwidth, 1e-300)
    return np.asarray(np.exp(-0.5 * np.square(scaled)) if kernel == "rbf" else np.exp(-scaled))
