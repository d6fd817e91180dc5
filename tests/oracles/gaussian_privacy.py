"""The accountant of Gaussian releases by numerical integration, which shares no formula with the code under test."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray


def integrate_delta(epsilon: float, noises: list[float]) -> float:
    """Integrate the hockey-stick divergence of composed Gaussian releases, one loss distribution at a time."""
    grid = np.arange(-80.0, 80.0, 2e-3)
    density: NDArray[np.float64] | None = None
    for noise in noises:
        mean, spread = 1 / (2 * noise**2), 1 / noise  # the privacy loss of one release is normal
        loss = np.exp(-((grid - mean) ** 2) / (2 * spread**2)) / (spread * math.sqrt(2 * math.pi))
        density = loss if density is None else convolve(density, loss)
    assert density is not None
    over = grid > epsilon
    return float((density[over] * -np.expm1(epsilon - grid[over])).sum() * 2e-3)


def convolve(first: NDArray[np.float64], second: NDArray[np.float64]) -> NDArray[np.float64]:
    n = 2 * len(first)
    whole = np.fft.irfft(np.fft.rfft(first, n) * np.fft.rfft(second, n), n) * 2e-3
    middle = len(first) // 2  # both grids are centered on 0
    return whole[middle : middle + len(first)]


def count_wins(mu: float, n: int, rng: np.random.Generator) -> float:
    """Return the AUC of the best attack on one Gaussian release, by drawing from it."""
    return float((rng.standard_normal(n) + mu > rng.standard_normal(n)).mean())
