"""Drift: whether later users are like the users that a map was fitted on.

Compared are the mean and the covariance, in units of the spread of the fit, with what chance adds for so many users
taken off. What users of one table differ by, halved at random many times, is stored with the map as a threshold.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recveil.core.types import FloatArray

__all__ = ["Drift", "DriftReference"]

SPLITS = 20
"""Halvings of the table of the fit from which the thresholds are taken."""

MIN_DRIFT_TO_WARN = 0.1
"""Drift that is not worth a warning, whatever the halvings say: a tenth of a standard deviation."""

MIN_DRIFT_TO_REFUSE = 0.5
"""Drift from which a map is not applied: half a standard deviation."""

CHANCE_ERRORS = 3.0
"""Standard errors of a squared drift that count as chance besides its mean."""

MIN_VARIANCE_SHARE = 1e-6
"""Directions with less than this share of the largest variance count as having this share."""

MIN_USERS_FOR_COVARIANCE = 5
"""Users for each dimension below which covariances are not compared."""


@dataclass(frozen=True)
class Drift:
    """How far later users are from those of the fit.

    Attributes:
        mean: root mean square shift of the mean over all directions, in standard deviations.
        covariance: root mean square change of the covariance, relative to that of the fit; 0 if users are too few.
        warns: the drift is more than that of halves of one table.
        refuses: the map should not be applied.
    """

    mean: float
    covariance: float
    warns: bool
    refuses: bool


@dataclass(frozen=True, eq=False)
class DriftReference:
    """Moments of the users of a fit, and how far halves of them are apart.

    Attributes:
        n: number of users.
        mean: (d,) their mean.
        covariance: (d, d) their covariance.
        thresholds: (2,) largest drift of the mean and of the covariance between halves; 0 for later users.
    """

    n: int
    mean: FloatArray
    covariance: FloatArray
    thresholds: FloatArray

    @classmethod
    def fit(cls, x: FloatArray, rng: np.random.Generator) -> DriftReference:
        """Measure the users of a fit."""
        rows = np.asarray(x, dtype=np.float64)
        largest = np.zeros(2)
        for _ in range(SPLITS if len(rows) >= 4 else 0):
            order = rng.permutation(len(rows))
            halves = [cls._measure(rows[part]) for part in np.split(order, [len(rows) // 2])]
            largest = np.maximum(largest, halves[0]._compare(halves[1]))
        whole = cls._measure(rows)
        return cls(whole.n, whole.mean, whole.covariance, largest)

    @classmethod
    def from_arrays(cls, n: int, arrays: dict[str, NDArray[Any]]) -> DriftReference:
        """Build the reference from `to_arrays`."""
        return cls(n, arrays["mean"], arrays["covariance"], arrays["thresholds"])

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays that make up the reference, by name."""
        return {"mean": self.mean, "covariance": self.covariance, "thresholds": self.thresholds}

    def has_shape(self, dimensions: int) -> bool:
        """Whether the reference is for vectors of so many dimensions."""
        shapes = [array.shape for array in self.to_arrays().values()]
        return shapes == [(dimensions,), (dimensions, dimensions), (2,)] and self.n > 0

    def measure_drift(self, x: FloatArray) -> Drift:
        """Measure how far these users are from those of the fit."""
        return self.judge_moments(self._measure(np.asarray(x, dtype=np.float64)))

    def judge_moments(self, later: DriftReference) -> Drift:
        """Judge how far users with these moments are from those of the fit."""
        mean, covariance = self._compare(later).tolist()
        limits = np.maximum(self.thresholds, MIN_DRIFT_TO_WARN).tolist()
        warns = mean > limits[0] or covariance > limits[1]
        # A heavy-tailed table differs from itself by more, so that its halves count here too.
        refuses = any(d > max(MIN_DRIFT_TO_REFUSE, 2 * t) for d, t in zip((mean, covariance), limits, strict=True))
        return Drift(mean, covariance, warns, refuses)

    @classmethod
    def _measure(cls, rows: FloatArray) -> DriftReference:
        mean = rows.mean(0)
        return cls(len(rows), mean, (rows - mean).T @ (rows - mean) / len(rows), np.zeros(2))

    def _compare(self, later: DriftReference) -> FloatArray:
        """Return the drift of mean and covariance, less what chance adds."""
        n, d = later.n, len(self.mean)
        values, vectors = np.linalg.eigh(self.covariance)
        whitening = vectors / np.sqrt(values.clip(min=max(MIN_VARIANCE_SHARE * values[-1], 1e-300)))
        chance = 1 / n + 1 / self.n
        center = (later.mean - self.mean) @ whitening
        shift = float((center**2).mean()) - chance * (1 + CHANCE_ERRORS * np.sqrt(2 / d))
        change = 0.0
        if n >= MIN_USERS_FOR_COVARIANCE * d:
            C = whitening.T @ later.covariance @ whitening
            own = np.diag((values > MIN_VARIANCE_SHARE * values[-1]).astype(np.float64))
            change = float(((C - own) ** 2).sum() / d) - (d + 1) * chance * (1 + CHANCE_ERRORS * np.sqrt(2) / d)
        return np.sqrt(np.maximum(0.0, [shift, change]))
