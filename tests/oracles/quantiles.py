"""The error of quantile levels of a random sample (Dvoretzky, Kiefer and Wolfowitz 1956; Massart 1990)."""

from __future__ import annotations

import math


def compute_level_error(k: int, *, axes: int, failure_rate: float = 0.01) -> float:
    """Bound how far quantile levels of k rows are off along all of these axes, except with the failure rate."""
    return math.sqrt(math.log(2 * axes / failure_rate) / (2 * max(k, 1)))
