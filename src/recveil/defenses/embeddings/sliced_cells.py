"""The drawn sliced barycenter of a table larger than memory, from the moments of its cells and a sample of their rows.

The rounds are learned from a part of the sample, and the moments that they leave from the rest of it.

Departs from the fit in memory: the rounds are learned from up to 50,000 users of a class instead of 10,000; where a
class has more users than the sample, the moments before the draw are those of users the rounds were not fitted to; the
moments of the reference are drawn as those of Gaussian users; and moments are plain sample moments, as they are in
memory for classes of more than 10,000.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import stats

from recveil.core.random import make_torch_generator
from recveil.core.types import FloatArray, IntArray
from recveil.defenses.embeddings.cell_maps import CellAffine, CellMap, CellStatistics
from recveil.defenses.embeddings.cells import Cells
from recveil.defenses.embeddings.fitted_maps import SlicedMap
from recveil.defenses.embeddings.sliced_rounds import carry_rounds
from recveil.transport import bures_wasserstein
from recveil.transport.moments import Moments

__all__ = ["MAX_LEARNED_USERS", "fit_rounds"]

MAX_LEARNED_USERS = 50_000
"""Users of each class that the rounds are learned from."""

PIECE_ROWS = 1 << 16
"""Rows of the sample that go through the rounds at once."""


def fit_rounds(
    first: CellAffine, cells: Cells, statistics: CellStatistics, *, rounds: int, drawn: bool, rng: np.random.Generator
) -> CellMap:
    """Fit the rounds and the draw that follow the Gaussian map `first`.

    Args:
        first: Gaussian transport of all cells, at full strength.
        cells: class of each cell.
        statistics: moments, codes and sample of the cells.
        rounds: number of rounds.
        drawn: give each class the moments of a random reference at the end.
        rng: source of the axes and of the reference.

    Returns:
        The map at full strength.
    """
    draws, K = make_torch_generator(rng), cells.n_classes
    codes = cells.codes[statistics.sample_cells]
    n = statistics.moments.group_classes(cells.codes.tolist(), K).n
    learned, measured = (np.flatnonzero(rows) for rows in _divide_sample(codes, n.numpy()))
    start = _carry_sample(first, statistics, learned)
    few = Cells(codes[learned], cells.keys)
    fitted = carry_rounds(start, few, rounds, draws, keep_map=True, max_users=MAX_LEARNED_USERS)[1]
    now = _measure_moments(first, fitted, statistics, codes, measured, K)
    now = Moments(n, now.mean, now.covariance * n[:, None, None])
    last = _draw_moments(now, rng) if drawn else CellAffine.identity(now)
    classes = torch.as_tensor(cells.codes)
    return CellMap(first, tuple(cells.codes.tolist()), fitted, last.select_cells(classes))


def _carry_sample(first: CellAffine, statistics: CellStatistics, rows: NDArray[np.intp]) -> torch.Tensor:
    """Carry these rows of the sample by the first map, in double precision."""
    x, cells = torch.from_numpy(statistics.sample[rows]), statistics.sample_cells[rows]
    y = torch.empty(x.shape, dtype=torch.float64)
    for cell in np.unique(cells).tolist():
        at = torch.from_numpy(np.flatnonzero(cells == cell))
        y[at] = first.carry_rows(x[at].double(), cell)
    return y


def _divide_sample(codes: IntArray, n: FloatArray) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Choose the rows that the rounds are learned from, and those for the moments.

    Moments are taken from rows that the rounds were not fitted to. Only a class that is in the sample whole gives all
    its rows to both, since its moments are then exact.
    """
    learned, measured = np.zeros(len(codes), dtype=bool), np.zeros(len(codes), dtype=bool)
    for k in range(len(n)):
        rows = np.flatnonzero(codes == k)
        whole = len(rows) >= n[k]
        cut = min(len(rows), MAX_LEARNED_USERS) if whole else min(len(rows) // 5, MAX_LEARNED_USERS)
        learned[rows[:cut]] = True
        measured[rows if whole else rows[cut:]] = True
    return learned, measured


def _measure_moments(
    first: CellAffine,
    fitted: SlicedMap,
    statistics: CellStatistics,
    codes: IntArray,
    rows: NDArray[np.intp],
    n_classes: int,
) -> Moments:
    """Measure the moments of the classes after the rounds, on rows of the sample."""
    total = Moments.make_empty(n_classes, statistics.sample.shape[1], torch.device("cpu"))
    for part in np.array_split(rows, len(rows) // PIECE_ROWS + 1):  # in double precision all rows would take much room
        classes = torch.from_numpy(codes[part])
        after = fitted(_carry_sample(first, statistics, part), classes)
        total = total.merge(Moments.from_rows(after, classes, n_classes))
    return total


def _draw_moments(now: Moments, rng: np.random.Generator) -> CellAffine:
    """Map each class to moments that as many users drawn from all would have.

    For Gaussian users the mean is N(m, C / n_k) and the covariance C^1/2 W C^1/2 with n_k W ~ Wishart(n_k - 1, I).
    """
    K, d = now.mean.shape
    whole = now.pool_classes()
    C, m = whole.covariance[0], whole.mean[0]
    root = bures_wasserstein.matrix_power(C, 0.5)
    sizes = now.n.clamp(min=2)
    mean = m + torch.from_numpy(rng.standard_normal((K, d))) @ root / sizes.sqrt()[:, None]
    A = torch.eye(d, dtype=torch.float64).expand(K, -1, -1)
    if bool((now.n > d).all()):  # a class of fewer users has no covariance that a map could change
        references = [root @ torch.from_numpy(_draw_wishart(float(n), d, rng)) @ root for n in sizes]
        A = bures_wasserstein.compute_transport(now.covariance, torch.stack(references))
    return CellAffine(now.mean, A, mean)


def _draw_wishart(n: float, d: int, rng: np.random.Generator) -> FloatArray:
    """Draw the sample covariance of n users of a standard Gaussian."""
    drawn = np.asarray(stats.wishart.rvs(df=n - 1, scale=np.eye(d) / n, random_state=rng), dtype=np.float64)
    return drawn.reshape(d, d)
