"""Least displacement for a given class divergence, found from the moments alone.

Minimize  sum_i |x_i - x0_i|^2 / (n tr C_0) + multiplier * (class divergence, mean over the attributes).
Within a cell (the rows that share all their classes) the gradient of the divergence is affine in x, hence so is every
stationary point: each cell is carried by one affine map, and only its mean and covariance matter. So a cell enters as
its share w, its mean and rows F with F'F its covariance; moving them costs w (|mean - mean0|^2 + |F - F0|^2), exactly
what the rows themselves would pay. The time of a step does not depend on the number of rows.

The multiplier climbs a ladder, each rung solved by L-BFGS from the one below; between the last two Brent's root finder
meets the target. Exact: displacement and divergence of what is found. Not proven: that no other point is better, as the
divergence is not convex; the path is followed from the start because there is another one: where classes have fewer
rows than dimensions, squeezing everybody into the few directions of the smallest class is stationary too. For one
attribute whose classes span the space the path ends at a known optimum, Gaussian transport.
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
"""Variances under this share of a cell's largest count as none: no map can spread what does not vary."""

NEGLIGIBLE_DIVERGENCE = 1e-6
"""A divergence under this share of what there was counts as none; to go on would cost time and change nothing."""

LOG_STEP = float(np.log(3))
LOG_MULTIPLIERS = [float(np.log(1e-4)) + LOG_STEP * step for step in range(26)]
"""The ladder of multipliers, in logarithms. Wider rungs were seen to lose the path where classes are small."""

LOG_TOLERANCE = 1e-3
"""How near to its root the logarithm of the multiplier is brought."""

ROUGH_TOLERANCE, FINE_TOLERANCE = 1e-7, 1e-10
"""When L-BFGS stops on the ladder, which only leads there, and at the target."""

Vector = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class TradeoffPoint:
    """Where the cells may stand: how far apart the classes are there, and what it costs to go there."""

    at: Vector
    divergence: float
    moved: float  # sum_i |x_i - x0_i|^2 / (n tr C_0)


class Tradeoff:
    """Displacement against divergence, for cells of which (cells, attributes) `classes` says where they belong.

    A class of -1 means that the cell says nothing of that attribute; `eps` is added to every variance.
    """

    def __init__(self, cells: Moments, classes: torch.Tensor, eps: float) -> None:
        self.n, self.eps = cells.n, eps
        self.scale = float(torch.trace(cells.pool_classes().covariance[0])) or 1.0
        values, self.axes = torch.linalg.eigh(cells.covariance)
        self.deviation = torch.where(values > RANK_TOLERANCE * values[:, -1:], values, 0.0).clamp(min=0).sqrt()
        F = self.deviation[:, :, None] * self.axes.mT
        self.origin = torch.cat([cells.mean[:, None], F], 1)  # (cells, 1 + d, d): the mean, then the rows F
        self.members = [(column == torch.unique(column[column >= 0])[:, None]).double() for column in classes.T]
        # In these units the displacement is the plain sum of squares.
        self.unit = (self.scale / cells.weights).sqrt()[:, None, None]
        self.start = self._make_point(np.zeros(self.origin.numel()))

    def minimize_displacement(self, divergence: float) -> TradeoffPoint:
        """The least displacement with no more divergence than this."""
        aim = max(divergence, NEGLIGIBLE_DIVERGENCE * self.start.divergence)
        if self.start.divergence <= aim:
            return self.start
        tried = self._search_multiplier(lambda point: point.divergence / aim, beyond=LOG_TOLERANCE)
        enough = [point for point in tried if point.divergence <= aim]
        return min(enough, key=lambda p: p.moved) if enough else min(tried, key=lambda p: p.divergence)

    def minimize_divergence(self, moved: float) -> TradeoffPoint:
        """The least divergence with no more displacement than this."""
        if moved <= 0 or self.start.divergence <= 0:
            return self.start
        tried = self._search_multiplier(lambda point: moved / max(point.moved, 1e-300), beyond=-LOG_TOLERANCE)
        affordable = [self.start, *(point for point in tried if point.moved <= moved)]
        return min(affordable, key=lambda point: point.divergence)

    def compute_maps(self, point: TradeoffPoint) -> tuple[torch.Tensor, torch.Tensor]:
        """A and b of each cell: x -> (x - mean of the cell) A + b carries its rows to the point."""
        state = self._compute_state(point.at)
        inverse = torch.where(self.deviation > 0, 1 / self.deviation.clamp(min=1e-300), 0.0)
        return self.axes @ (inverse[:, :, None] * state[:, 1:]), state[:, 0]

    def _search_multiplier(self, ratio: Callable[[TradeoffPoint], float], beyond: float) -> list[TradeoffPoint]:
        """Points up to the multiplier at which the ratio, which falls as it grows, is one; the last a little beyond."""
        tried, nothing = {-np.inf: self.start}, NEGLIGIBLE_DIVERGENCE * self.start.divergence

        def excess(power: float, tolerance: float = FINE_TOLERANCE) -> float:
            below = max(other for other in tried if other < power)
            tried[power] = self._solve_multiplier(float(np.exp(power)), tried.get(power, tried[below]).at, tolerance)
            return float(np.log(ratio(tried[power])))

        low = high = LOG_MULTIPLIERS[0]
        for high in track_progress(LOG_MULTIPLIERS, "AttrCloak", len(LOG_MULTIPLIERS)):
            if excess(high, ROUGH_TOLERANCE) <= 0 or tried[high].divergence <= nothing:
                break
            low = high
        if low < high and excess(low) <= 0:  # the rough answer was on the wrong side
            low, high = low - LOG_STEP, low
        if low < high and excess(low) > 0 >= excess(high):
            excess(brentq(excess, low, high, xtol=LOG_TOLERANCE) + 2 * beyond)
        return list(tried.values())

    def _solve_multiplier(self, multiplier: float, at: Vector, tolerance: float) -> TradeoffPoint:
        def lagrangian(y: Vector) -> tuple[float, Vector]:
            value, slope = self._compute_divergence(y)
            return float(y @ y) + multiplier * value, 2 * y + multiplier * slope

        options = {"maxiter": 300, "maxcor": 20, "ftol": tolerance, "gtol": 1e-10}
        return self._make_point(minimize(lagrangian, at, jac=True, method="L-BFGS-B", options=options).x)

    def _compute_divergence(self, at: Vector) -> tuple[float, Vector]:
        """The mean over the attributes, and its gradient."""
        state, value = self._compute_state(at), 0.0
        slope, mean, F = torch.zeros_like(state), state[:, 0], state[:, 1:]
        covariance = F.mT @ F
        for member in self.members:  # (K, cells)
            counts = member * self.n
            n, known, own = counts.sum(1), member.sum(0), member.argmax(0)
            m = counts @ mean / n[:, None]
            apart = mean - m[own]
            spread = covariance + apart[:, :, None] * apart[:, None, :]
            fit = compute_divergence(Moments(n, m, torch.einsum("kc,cij->kij", counts, spread)), self.eps)
            P, P_k = fit.precision[-1], fit.precision[own]
            share = (self.n * known / n.sum() / len(self.members))[:, None, None]
            value += float(fit.value) / len(self.members)
            slope[:, :1] += share * ((mean - fit.mean[-1])[:, None] @ P - apart[:, None] @ P_k)
            slope[:, 1:] += share * (F @ (P - P_k))
        return value, (slope * self.unit).reshape(-1).numpy()

    def _make_point(self, at: Vector) -> TradeoffPoint:
        return TradeoffPoint(at, self._compute_divergence(at)[0], float(at @ at))

    def _compute_state(self, at: Vector) -> torch.Tensor:
        return self.origin + torch.from_numpy(at).reshape(self.origin.shape) * self.unit
