"""Entropic transport of several classes of points to one set of atoms, all classes at once.

Class i has n_i points of mass 1/n_i each; the atoms have the same weights a for every class. With potentials g_i the
plan gives a point p of class i the shares softmax_q((g_i(q) - cost(p, q)) / epsilon): its rows always hold, and
Sinkhorn's step makes the columns hold, g_i += epsilon (log a - log h_i), where h_i is what arrives at the atoms now.
Only potentials and logarithms are kept, so a small epsilon does no harm (Cuturi 2013; Schmitzer 2019).

Departs: steps are over-relaxed (Thibault et al. 2021) as long as the columns come closer, and epsilon comes down from a
large one, each level beginning where the last one ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

from recveil.core.errors import UsageError
from recveil.transport.distances import cut_blocks

__all__ = ["TransportPlan", "ascend_potentials", "schedule_epsilons", "sinkhorn"]

MAX_RELAXATION = 1.7
"""How far beyond the plain step to go; 1 is plain, 2 would never settle."""

WeightRule = Callable[[torch.Tensor, torch.Tensor, float], torch.Tensor]
"""(log h, g, epsilon) -> the logarithm of the weights that the columns should have."""


@dataclass(frozen=True, eq=False)
class TransportPlan:
    """A transport plan for each class, kept as potentials: (K, m) numbers in place of (n, m)."""

    cost: torch.Tensor  # (n, m)
    codes: torch.Tensor  # (n,) the class of each point
    potentials: torch.Tensor  # (K, m)
    epsilon: float
    violation: float  # what the worst class has at wrong atoms, as a sum of absolute differences

    def iterate_shares(self) -> Iterator[tuple[slice, torch.Tensor]]:
        """Where each point goes, block by block: rows that sum to 1."""
        return _iterate_shares(self.cost, self.codes, self.potentials, self.epsilon)

    def compute_coupling(self) -> torch.Tensor:
        """T, (n, m): the rows of class i sum to 1/n_i, its columns to the weights."""
        n = torch.bincount(self.codes).to(self.cost.dtype)
        return torch.cat([share / n[self.codes[rows], None] for rows, share in self.iterate_shares()])

    def project_points(self, atoms: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The mean of the atoms each point goes to, and how far (squared) these lie from it on average."""
        mean = torch.cat([share @ atoms for _, share in self.iterate_shares()])
        spread = torch.cat([share @ atoms.square().sum(1) for _, share in self.iterate_shares()]) - mean.square().sum(1)
        return mean, spread.clamp(min=0)


def sinkhorn(
    cost: torch.Tensor,
    codes: torch.Tensor,
    weights: torch.Tensor,
    *,
    epsilon: float,
    tolerance: float = 1e-3,
    steps: int = 1000,
    start: torch.Tensor | None = None,
) -> TransportPlan:
    """Carry every class to the atoms of these weights with least cost + epsilon (negative entropy of the plan).

    It ends when no class has more than `tolerance` of its mass at wrong atoms, or after so many steps; `violation` of
    the result says which. `codes` are 0..K-1 and every class has points. `start` are potentials to begin with.
    """
    if not epsilon > 0:
        raise UsageError(f"epsilon must be above 0; got {epsilon:g}. Exact transport is not computed here.")
    log_weights = weights.clamp(min=torch.finfo(cost.dtype).tiny).log()
    g = cost.new_zeros(int(codes.max()) + 1, cost.shape[1]) if start is None else start
    violation = torch.inf
    for level in schedule_epsilons(cost, epsilon) if start is None else [epsilon]:
        aim = tolerance if level == epsilon else max(tolerance, 0.05)
        g, violation = ascend_potentials(
            cost, codes, g, lambda *_: log_weights, epsilon=level, tolerance=aim, steps=steps
        )
    return TransportPlan(cost, codes, g, epsilon, violation)


def schedule_epsilons(cost: torch.Tensor, epsilon: float) -> list[float]:
    """From a fifth of the mean cost down to epsilon, by halves."""
    found = [epsilon]
    while found[-1] * 2 < float(cost.mean()) / 5:
        found.append(found[-1] * 2)
    return found[::-1]


def ascend_potentials(
    cost: torch.Tensor,
    codes: torch.Tensor,
    g: torch.Tensor,
    weigh: WeightRule,
    *,
    epsilon: float,
    tolerance: float,
    steps: int,
) -> tuple[torch.Tensor, float]:
    """Sinkhorn's steps until the columns hold: the potentials, each class centered, and what is at wrong atoms."""
    members = torch.nn.functional.one_hot(codes, len(g)).to(cost.dtype)
    members = members / members.sum(0)
    tiny = torch.finfo(cost.dtype).tiny
    last, relaxed = torch.inf, MAX_RELAXATION
    for step in range(steps + 1):
        h = torch.zeros_like(g)
        for rows, share in _iterate_shares(cost, codes, g, epsilon):
            h.addmm_(members[rows].mT, share)
        log_h = h.clamp(min=tiny).log()
        log_a = weigh(log_h, g, epsilon)
        violation = float((log_a.exp() - h).abs().sum(1).max())
        if violation <= tolerance or step == steps:
            break
        relaxed = 1.0 if violation > last else min(MAX_RELAXATION, relaxed + 0.1)
        g = g + relaxed * epsilon * (log_a - log_h)
        g, last = g - g.mean(1, keepdim=True), violation
    return g, violation


def _iterate_shares(
    cost: torch.Tensor, codes: torch.Tensor, g: torch.Tensor, epsilon: float
) -> Iterator[tuple[slice, torch.Tensor]]:
    g = g / epsilon
    for rows in cut_blocks(cost):
        z = g.index_select(0, codes[rows]).sub_(cost[rows], alpha=1 / epsilon)
        yield rows, torch.softmax(z, 1)
