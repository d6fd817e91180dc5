"""Kernel ridge regression, exact, with the kernel, its bandwidth and the ridge chosen on held-out rows.

The prediction for row x is sum_i a_i k(x, x_i) with a = (K + ridge / weights)^-1 (targets - mean), found by conjugate
gradients. Kernels centered at a sample of the rows (Nystroem) would be quicker, and miss what differs in small
neighborhoods. Read as a Gaussian process, the ridge is the variance of the noise over that of the signal, which does
not change with the number of rows. So a setting that was chosen on a part of the rows is used for all of them.
"""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from recveil.core.types import FloatArray

__all__ = [
    "KernelSetting",
    "apply_kernel",
    "choose_setting",
    "compute_distances",
    "compute_kernel",
    "solve_ridge",
    "standardize_columns",
]

KERNELS = ("rbf", "laplace")
BANDWIDTHS = (0.2, 0.45, 1.0)
"""Bandwidths to choose from, relative to the median distance of two rows."""

RIDGES = (0.3, 3.0, 30.0)
"""Ridges to choose from: noise variance over signal variance."""

MAX_ROWS_TO_CHOOSE = 5_000
"""Rows on which the setting is chosen. With few rows a weak signal in small neighborhoods is not seen, and a setting
is chosen that misses it with many rows too."""

MAX_STEPS = 20
"""Steps of conjugate gradients. The ridge keeps the system well conditioned, so that few are needed."""

TOLERANCE = 0.03
"""Length of the residual, relative to the start, at which the steps end."""


class KernelSetting(NamedTuple):
    """A kernel, its bandwidth in units of distance, and the ridge."""

    kernel: str
    bandwidth: float
    ridge: float


def standardize_columns(x: FloatArray) -> FloatArray:
    """Give all columns mean 0 and variance 1; columns that do not vary become 0."""
    wide = np.asarray(x, dtype=np.float64)
    centered, spread = wide - wide.mean(0), wide.std(0)
    varies = spread > 1e-9 * np.abs(wide).max(0, initial=0.0)
    return np.asarray(np.where(varies, centered, 0.0) / np.where(varies, spread, 1.0), dtype=np.float32)


def choose_setting(x: Tensor, targets: Tensor, weights: Tensor) -> KernelSetting:
    """Choose the setting with the least weighted squared error on a quarter of the rows.

    Args:
        x: standardized rows, in random order.
        targets: (n, K) numbers to predict.
        weights: (n,) weight of each row.
    """
    most = min(len(x), MAX_ROWS_TO_CHOOSE)
    cut = max(1, 3 * most // 4)
    train, test = slice(0, cut), slice(cut, most) if cut < most else slice(0, 1)
    few = x[train][:1_000]
    unit = float(torch.cdist(few, few).median()) or 1.0
    # All ridges are solved together, as columns of one system.
    columns = targets[train].repeat(1, len(RIDGES))
    ridge = torch.tensor(RIDGES, device=x.device).repeat_interleave(targets.shape[1])
    inside, across = compute_distances(x[train], x[train]), compute_distances(x[test], x[train])
    gram, errors = torch.empty_like(inside), {}
    for kernel, width in product(KERNELS, BANDWIDTHS):
        setting = KernelSetting(kernel, width * unit, RIDGES[0])
        coefficients, mean = solve_ridge(apply_kernel(inside, setting, gram), columns, weights[train, None] / ridge)
        guess = apply_kernel(across, setting) @ coefficients + mean
        off = (guess - targets[test].repeat(1, len(RIDGES))).square().reshape(guess.shape[0], len(RIDGES), -1).sum(2)
        for number, error in zip(RIDGES, (off * weights[test, None]).sum(0).tolist(), strict=True):
            errors[setting._replace(ridge=number)] = error
    return min(errors, key=lambda setting: errors[setting])


def compute_kernel(a: Tensor, b: Tensor, setting: KernelSetting) -> Tensor:
    """Return the kernel between all rows of `a` and all rows of `b`."""
    distances = compute_distances(a, b)
    return apply_kernel(distances, setting, distances)  # in place: of 12,000 rows each matrix takes 576 MB


def compute_distances(a: Tensor, b: Tensor) -> Tensor:
    """Return the distances between all rows of `a` and all rows of `b`."""
    return torch.cdist(a, b, compute_mode="use_mm_for_euclid_dist")


def apply_kernel(distances: Tensor, setting: KernelSetting, out: Tensor | None = None) -> Tensor:
    """Return the kernel of pairs at these distances, in `out` where given: new memory costs more than the work."""
    scaled = torch.div(distances, max(setting.bandwidth, 1e-30), out=out)
    return (scaled.square_().mul_(-0.5) if setting.kernel == "rbf" else scaled.neg_()).exp_()


def solve_ridge(gram: Tensor, targets: Tensor, precision: Tensor) -> tuple[Tensor, Tensor]:
    """Solve (gram + 1 / precision) a = targets - mean for each column; return a and the means.

    With s = sqrt(precision) it is (s gram s + 1) z = s (targets - mean), a = s z, whose eigenvalues are at least 1.
    Rows with precision 0 are left out: their coefficients are 0.

    Args:
        gram: kernel of all pairs of rows.
        targets: (n, c) columns to predict.
        precision: weights over ridge, (n, c), or (n, 1) for all columns alike.
    """
    mean = (targets * precision).sum(0) / precision.sum(0)
    scale = precision.sqrt()
    residual = scale * (targets - mean)
    z, direction = torch.zeros_like(residual), residual.clone()
    squared = residual.square().sum(0)
    enough = TOLERANCE**2 * squared
    for _ in range(MAX_STEPS):
        # A few columns times a symmetric matrix: with the columns in a row each, BLAS takes a third of the time.
        image = scale * ((scale * direction).mT.contiguous() @ gram).mT + direction
        step = squared / (direction * image).sum(0).clamp(min=1e-30)
        z += step * direction
        residual -= step * image
        previous, squared = squared, residual.square().sum(0)
        if bool((squared <= enough).all()):
            break
        direction = residual + squared / previous.clamp(min=1e-30) * direction
    return scale * z, mean
