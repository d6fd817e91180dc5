"""Kernel ridge regression, exact, with the kernel, its bandwidth and the ridge chosen on held-out rows.

The prediction for row x is sum_i a_i k(x, x_i) with a = (K + ridge / weights)^-1 (targets - mean), found by conjugate
gradients. Kernels centered at a sample of the rows (Nystroem) would be quicker, and miss what differs in small
neighborhoods. Read as a Gaussian process, the ridge is the variance of the noise over that of the signal, which does
not change with the number of rows. So a setting that was chosen on a part of the rows is used for all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from recveil.core.types import FloatArray

__all__ = [
    "KernelSetting",
    "RidgeFit",
    "apply_kernel",
    "choose_settings",
    "compute_distances",
    "compute_kernel",
    "solve_ridges",
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

HELD_OUT_FROM = (0.75, 0.25)
"""Shares of the rows after which the two quarters begin on which a setting is chosen; with one alone, the choice
depends on which rows it happens to hold."""

MAX_STEPS = 80
"""Steps of conjugate gradients. The ridge keeps the system well conditioned, so that few are needed; small ridges on
many rows need over 20, and guess at random where they are cut short."""

MAX_STEPS_TO_CHOOSE = 20
"""Steps while a setting is chosen: those that need more are hardly ever the best."""

MAX_COLUMNS_TO_CHOOSE = 16
"""Columns of the targets while a setting is chosen: of more, that many random sums are guessed in their place."""

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


class RidgeFit(NamedTuple):
    """Solutions for each ridge: coefficients and guesses at the rows, both (ridges, n, c), and the means, (c,)."""

    coefficients: Tensor
    guesses: Tensor
    mean: Tensor


def choose_settings(x: Tensor, targets: Tensor, weights: Tensor) -> list[KernelSetting]:
    """Choose for each problem the setting with the least weighted squared error on two quarters of its rows.

    Each quarter is guessed from the other three. Problems share the kernel matrix of all rows: one pass over it serves
    all of them, both quarters and all ridges.

    Args:
        x: standardized rows, in random order.
        targets: (n, K) numbers to predict.
        weights: (n, problems) weight of each row in each problem; 0 for rows that a problem does not know.
    """
    most = int(MAX_ROWS_TO_CHOOSE * len(x) / max(1, int((weights > 0).sum(0).max())))
    x, targets, weights = x[:most], _sum_columns(targets[:most]), weights[:most]
    n_problems, K = weights.shape[1], targets.shape[1]
    held_out = torch.cat([weights * _hold_out_quarter(weights > 0, share) for share in HELD_OUT_FROM], 1)
    trials = weights.repeat(1, len(HELD_OUT_FROM))
    unit = float(torch.cdist(x[:1_000], x[:1_000]).median()) or 1.0
    columns, learned = targets.repeat(1, trials.shape[1]), (trials - held_out).repeat_interleave(K, 1)
    distances, errors = compute_distances(x, x), {}
    gram = torch.empty_like(distances)
    for kernel, width in product(KERNELS, BANDWIDTHS):
        setting = KernelSetting(kernel, width * unit, RIDGES[0])
        fit = solve_ridges(apply_kernel(distances, setting, gram), columns, learned, RIDGES, MAX_STEPS_TO_CHOOSE)
        off = (fit.guesses - columns).square().reshape(len(RIDGES), len(x), -1, K).sum(3)  # (ridges, n, trials)
        of_trial = (off * held_out).sum(1).reshape(len(RIDGES), -1, n_problems).sum(1)
        for number, error in zip(RIDGES, of_trial.tolist(), strict=True):
            errors[setting._replace(ridge=number)] = error
    return [min(errors, key=lambda setting: errors[setting][i]) for i in range(n_problems)]


def _sum_columns(targets: Tensor) -> Tensor:
    """Return random signed sums of many columns: squared errors summed over them are on average those of the columns.

    Guesses are linear in the targets, so those of the sums are the sums of the guesses (Johnson and Lindenstrauss
    1984).
    """
    columns = targets.shape[1]
    if columns <= MAX_COLUMNS_TO_CHOOSE:
        return targets
    signs = np.random.default_rng(0).choice([-1.0, 1.0], (columns, MAX_COLUMNS_TO_CHOOSE))
    return targets @ torch.as_tensor(signs / MAX_COLUMNS_TO_CHOOSE**0.5, dtype=targets.dtype, device=targets.device)


def _hold_out_quarter(is_known: Tensor, share: float) -> Tensor:
    """Return 1 for the quarter of the rows each problem knows that begins after this share of them, else 0."""
    place = is_known.cumsum(0) - 1
    total = place[-1] + 1
    start = (share * total).long().clamp(min=1)
    return is_known & (place >= start) & (place < start + total - 3 * total // 4)


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


def solve_ridges(
    gram: Tensor, targets: Tensor, weights: Tensor, ridges: Sequence[float], max_steps: int = MAX_STEPS
) -> RidgeFit:
    """Solve (gram + ridge / weights) a = targets - mean for each column and each ridge.

    With s = sqrt(weights) it is (s gram s + ridge) z = s (targets - mean), a = s z. The ridges share the steps: the
    directions of conjugate gradients (here by Lanczos) do not depend on them, and only a small tridiagonal system does.
    Rows with weight 0 are left out: their coefficients are 0, and they are guessed all the same.

    Args:
        gram: kernel of all pairs of rows.
        targets: (n, c) columns to predict.
        weights: (n, c), weight of each row in each column.
        ridges: noise variances over the signal variance, above 0.
        max_steps: steps after which the solution is taken as it is.
    """
    mean = (targets * weights).sum(0) / weights.sum(0)
    # A few columns times a symmetric matrix: with the columns in a row each, BLAS takes a third of the time.
    scale = weights.sqrt().mT.contiguous()
    direction = scale * (targets - mean).mT
    size = direction.norm(dim=1)
    direction = direction / size.clamp(min=1e-30)[:, None]
    previous, beta = torch.zeros_like(direction), torch.zeros_like(size)
    pivot, left = torch.ones_like(size), torch.ones_like(size)
    directions, images, diagonal, beside, steps_kept = [], [], [], [], [left > TOLERANCE]
    for _ in range(max_steps):
        directions.append(direction)
        images.append((scale * direction) @ gram)
        rest = scale * images[-1] - beta[:, None] * previous
        diagonal.append((rest * direction).sum(1))
        rest -= diagonal[-1][:, None] * direction
        # The least ridge needs the most steps; its residual follows from the pivots of the tridiagonal system.
        pivot = (diagonal[-1] + min(ridges) - beta.square() / pivot).clamp(min=min(ridges))
        beta = rest.norm(dim=1)
        left = left * beta / pivot
        is_open = steps_kept[-1] & (left > TOLERANCE)
        if not bool(is_open.any()):
            break
        steps_kept.append(is_open)
        beside.append(beta)
        previous, direction = direction, rest / beta.clamp(min=1e-30)[:, None]
    kept = torch.stack(steps_kept[: len(diagonal)], 1)
    share = _solve_tridiagonal(torch.stack(diagonal, 1), beside[: len(diagonal) - 1], kept, size, ridges)
    share = share.to(scale.dtype)
    coefficients = torch.einsum("rck,kcn->rnc", share, torch.stack(directions)) * scale.mT
    return RidgeFit(coefficients, torch.einsum("rck,kcn->rnc", share, torch.stack(images)) + mean, mean)


def _solve_tridiagonal(
    diagonal: Tensor, beside: list[Tensor], kept: Tensor, size: Tensor, ridges: Sequence[float]
) -> Tensor:
    """Solve (T + ridge) y = size e_1 for the tridiagonal T of each column; return y (ridges, c, steps).

    Steps that are not kept, since the column had ended before them, have share 0, so that a column is solved as it
    would be alone.
    """
    T = torch.diag_embed(torch.where(kept, diagonal, 1.0).double())
    if beside:
        edge = torch.diag_embed(torch.where(kept[:, 1:], torch.stack(beside, 1), 0.0).double(), offset=1)
        T = T + edge + edge.mT
    goal = torch.zeros_like(T[..., 0])
    goal[:, 0] = size.double()
    shift = torch.tensor(ridges, dtype=torch.float64, device=T.device)[:, None, None, None]
    eye = torch.eye(T.shape[1], dtype=torch.float64, device=T.device)
    y: Tensor = torch.linalg.solve(T + shift * eye, goal.expand(len(ridges), -1, -1))
    return y
