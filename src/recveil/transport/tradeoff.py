"""Least displacement for a given class divergence, found from the moments alone.

Minimize over the table x, from x0,

    sum_i |x_i - x0_i|^2 / (n tr C_0) + multiplier * (class divergence, mean over the attributes).      (1)

Within a cell (the rows that share all their classes) the gradient of the divergence is affine in x, hence so is every
stationary point: each cell moves by one affine map, and only its mean and covariance matter. So a cell enters as its
share w, its mean, and rows F with F'F its covariance. Moving them costs w (|mean - mean0|^2 + |F - F0|^2), exactly the
cost of moving the rows themselves, and the time of a step does not depend on the number of rows.

The multiplier rises step by step, each problem solved by L-BFGS from the solution of the last; between the last two,
Brent's method finds the multiplier that meets the target. Exact: displacement and divergence of the result. Not proven:
that no other point is better, since the divergence is not convex. The path is followed from x0 because another
stationary point exists: where classes have fewer rows than dimensions, projecting all rows onto the span of the
smallest class is stationary too. For one attribute whose classes span the space the path ends at a known optimum,
Gaussian transport.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import brentq, minimize

from recveil.core.progress import track_progress
from recveil.transport.divergence import compute_divergence
from recveil.transport.moments import Moments

__all__ = ["TradeoffPoint", "Tradeoff"]

RANK_TOLERANCE = 1e-12
"""Variances below this share of a cell's largest count as zero: no map can spread rows that do not vary."""

NEGLIGIBLE_DIVERGENCE = 1e-6
"""A divergence below this share of the initial one counts as zero; going on would cost time and change nothing."""

LOG_STEP = float(np.log(3))
"""Logarithm of the ratio between two multipliers of the path. With larger steps the path was lost where classes are
small.
"""
LOG_MULTIPLIERS = [float(np.log(1e-4)) + LOG_STEP * step for step in range(26)]
"""Logarithms of the multipliers of the path."""

LOG_TOLERANCE = 1e-3
"""Tolerance on the logarithm of the multiplier that meets the target."""

ROUGH_TOLERANCE, FINE_TOLERANCE = 1e-7, 1e-10
"""Relative decrease at which L-BFGS stops: on the path, and at the target."""

Vector = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class TradeoffPoint:
    """A position of the cells.

    Attributes:
        position: displacement of the means and rows F, in units in which the cost is the sum of squares.
        divergence: mean class divergence there.
        displacement: sum_i |x_i - x0_i|^2 / (n tr C_0).
    """

    position: Vector
    divergence: float
    displacement: float


class Tradeoff:
    """Displacement against divergence for the cells of a table.

    Args:
        cells: moments of the cells.
        classes: (cells, attributes) class of each cell; -1 if the cell says nothing about the attribute.
        eps: constant added to every variance.
    """

    def __init__(self, cells: Moments, classes: torch.Tensor, eps: float) -> None:
        self.n, self.eps = cells.n, eps
        self.scale = float(torch.trace(cells.pool_classes().covariance[0])) or 1.0
        values, self.axes = torch.linalg.eigh(cells.covariance)
        self.deviation = torch.where(values > RANK_TOLERANCE * values[:, -1:], values, 0.0).clamp(min=0).sqrt()
        F = self.deviation[:, :, None] * self.axes.mT
        self.origin = torch.cat([cells.mean[:, None], F], 1)  # (cells, 1 + d, d): the mean, then the rows F
        self.members = [(column == torch.unique(column[column >= 0])[:, None]).double() for column in classes.T]
        # In these units the displacement of eq. 1 is the plain sum of squares of a position.
        self.unit = (self.scale / cells.weights).sqrt()[:, None, None]
        self.start = self._make_point(np.zeros(self.origin.numel()))

    def minimize_displacement(self, divergence: float) -> TradeoffPoint:
        """Find the least displacement whose divergence is at most this."""
        target = max(divergence, NEGLIGIBLE_DIVERGENCE * self.start.divergence)
        if self.start.divergence <= target:
            return self.start
        solved = self._search_multiplier(lambda point: point.divergence / target, beyond=LOG_TOLERANCE)
        reached = [point for point in solved if point.divergence <= target]
        return min(reached, key=lambda p: p.displacement) if reached else min(solved, key=lambda p: p.divergence)

    def minimize_divergence(self, displacement: float) -> TradeoffPoint:
        """Find the least divergence whose displacement is at most this."""
        if displacement <= 0 or self.start.divergence <= 0:
            return self.start
        solved = self._search_multiplier(
            lambda point: displacement / max(point.displacement, 1e-300), beyond=-LOG_TOLERANCE
        )
        affordable = [self.start, *(point for point in solved if point.displacement <= displacement)]
        return min(affordable, key=lambda point: point.divergence)

    def compute_maps(self, point: TradeoffPoint) -> tuple[torch.Tensor, torch.Tensor]:
        """Compute the affine maps that move the rows of each cell to a point.

        Returns:
            A, (cells, d, d), and b, (cells, d): x -> (x - mean of the cell) A + b.
        """
        state = self._compute_state(point.position)
        inverse = torch.where(self.deviation > 0, 1 / self.deviation.clamp(min=1e-300), 0.0)
        return self.axes @ (inverse[:, :, None] * state[:, 1:]), state[:, 0]

    def _search_multiplier(self, ratio: Callable[[TradeoffPoint], float], beyond: float) -> list[TradeoffPoint]:
        """Follow the path to the multiplier at which the ratio is 1.

        The ratio falls as the multiplier grows. Returns all points that were solved, the last `beyond` past the root.
        """
        solved, negligible = {-np.inf: self.start}, NEGLIGIBLE_DIVERGENCE * self.start.divergence

        def measure_excess(log_multiplier: float, tolerance: float = FINE_TOLERANCE) -> float:
            below = max(other for other in solved if other < log_multiplier)
            start = solved.get(log_multiplier, solved[below]).position
            solved[log_multiplier] = self._solve_multiplier(float(np.exp(log_multiplier)), start, tolerance)
            return float(np.log(ratio(solved[log_multiplier])))

        low = high = LOG_MULTIPLIERS[0]
        for high in track_progress(LOG_MULTIPLIERS, "tracing the trade-off", len(LOG_MULTIPLIERS)):
            if measure_excess(high, ROUGH_TOLERANCE) <= 0 or solved[high].divergence <= negligible:
                break
            low = high
        if low < high and measure_excess(low) <= 0:  # the rough solution was on the wrong side
            low, high = low - LOG_STEP, low
        if low < high and measure_excess(low) > 0 >= measure_excess(high):
            root = brentq(measure_excess, low, high, xtol=LOG_TOLERANCE)
            measure_excess(root + 2 * beyond)  # a little past the root, to be on the right side of the target
        return list(solved.values())

    def _solve_multiplier(self, multiplier: float, start: Vector, tolerance: float) -> TradeoffPoint:
        """Minimize eq. 1 for one multiplier."""

        def lagrangian(y: Vector) -> tuple[float, Vector]:
            value, slope = self._compute_divergence(y)
            return float(y @ y) + multiplier * value, 2 * y + multiplier * slope

        options = {"maxiter": 300, "maxcor": 20, "ftol": tolerance, "gtol": 1e-10}
        return self._make_point(minimize(lagrangian, start, jac=True, method="L-BFGS-B", options=options).x)

    def _compute_divergence(self, position: Vector) -> tuple[float, Vector]:
        """Compute the mean divergence over the attributes and its gradient."""
        state, value = self._compute_state(position), 0.0
        slope, mean, F = torch.zeros_like(state), state[:, 0], state[:, 1:]
        covariance = F.mT @ F
        for member in self.members:  # (K, cells)
            counts = member * self.n
            n, known, own = counts.sum(1), member.sum(0), member.argmax(0)
            # Mean and scatter of each class from its cells: within the cells plus between them.
            m = counts @ mean / n[:, None]
            apart = mean - m[own]
            spread = covariance + apart[:, :, None] * apart[:, None, :]
            fit = compute_divergence(Moments(n, m, torch.einsum("kc,cij->kij", counts, spread)), self.eps)
            P, P_k = fit.precision[-1], fit.precision[own]
            share = (self.n * known / n.sum() / len(self.members))[:, None, None]
            value += float(fit.value) / len(self.members)
            # The gradient of the divergence by a row is (x - m) P - (x - m_k) P_k; F has mean 0 in it.
            slope[:, :1] += share * ((mean - fit.mean[-1])[:, None] @ P - apart[:, None] @ P_k)
            slope[:, 1:] += share * (F @ (P - P_k))
        return value, (slope * self.unit).reshape(-1).numpy()

    def _make_point(self, position: Vector) -> TradeoffPoint:
        return TradeoffPoint(position, self._compute_divergence(position)[0], float(position @ position))

    def _compute_state(self, position: Vector) -> torch.Tensor:
        """Compute means and rows F of the cells at a position."""
        return self.origin + torch.from_numpy(position).reshape(self.origin.shape) * self.unit
