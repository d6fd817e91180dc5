"""Entropic transport of several classes of points to one set of atoms, all classes at once.

Class i has n_i points of mass 1/n_i each; the atoms have the same weights a for every class. With potentials g_i the
plan gives point p of class i the shares

    softmax_q((g_i(q) - cost(p, q)) / epsilon),                                         (1)

so its row sums are exact. Sinkhorn's step makes the column sums exact in turn,

    g_i += epsilon (log a - log h_i),                                                   (2)

where h_i is the mass that arrives at each atom now. Only potentials and logarithms are stored, so a small epsilon is
numerically safe (Cuturi 2013; Schmitzer 2019).

Departs: steps are over-relaxed (Thibault et al. 2021) as long as the column sums improve, and epsilon falls from a
large value, each level starting from the potentials of the last one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

from recveil.core.errors import UsageError
from recveil.transport.distances import cut_blocks

__all__ = ["TransportPlan", "ascend_potentials", "schedule_epsilons", "sinkhorn"]

MAX_RELAXATION = 1.7
"""Largest over-relaxation of a step; 1 is Sinkhorn's step, and from 2 on the iteration diverges."""

WeightRule = Callable[[torch.Tensor, torch.Tensor, float], torch.Tensor]
"""(log h, g, epsilon) -> logarithm of the weights that the columns should have."""


@dataclass(frozen=True, eq=False)
class TransportPlan:
    """A transport plan of each class, stored as potentials.

    They take (K, m) numbers in place of (n, m).

    Attributes:
        cost: (n, m) cost of moving each point to each atom.
        codes: (n,) class of each point.
        potentials: (K, m) dual potentials of the atoms.
        epsilon: weight of the entropy.
        violation: mass at wrong atoms in the worst class, as a sum of absolute differences.
    """

    cost: torch.Tensor  # (n, m)
    codes: torch.Tensor  # (n,) the class of each point
    potentials: torch.Tensor  # (K, m)
    epsilon: float
    violation: float  # what the worst class has at wrong atoms, as a sum of absolute differences

    def iterate_shares(self) -> Iterator[tuple[slice, torch.Tensor]]:
        """Yield where each point goes, block by block: rows that sum to 1."""
        return _iterate_shares(self.cost, self.codes, self.potentials, self.epsilon)

    def compute_coupling(self) -> torch.Tensor:
        """Compute T, (n, m): rows of class i sum to 1/n_i, its columns to the weights."""
        n = torch.bincount(self.codes).to(self.cost.dtype)
        return torch.cat([share / n[self.codes[rows], None] for rows, share in self.iterate_shares()])

    def project_points(self, atoms: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Compute the barycentric projection: the mean of the atoms each point goes to.

        Returns:
            The means, (n, d), and the mean squared distance of each point's atoms from its mean, (n,).
        """
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
    """Transport every class to atoms of these weights at the least entropic cost.

    The objective is the cost of the plan minus epsilon times its entropy.

    Args:
        cost: (n, m) cost of moving each point to each atom.
        codes: (n,) class of each point, 0..K-1; every class has points.
        weights: (m,) weights of the atoms.
        epsilon: weight of the entropy of the plan.
        tolerance: mass of a class that may be at wrong atoms.
        steps: most steps for each level of epsilon.
        start: (K, m) potentials to begin with.

    Returns:
        The plan; its `violation` says whether it ended by the tolerance or by the steps.

    Raises:
        UsageError: epsilon is not positive.
    """
    if not epsilon > 0:
        raise UsageError(f"epsilon is {epsilon:g}. It must be positive; exact transport is not offered.")
    log_weights = weights.clamp(min=torch.finfo(cost.dtype).tiny).log()
    g = cost.new_zeros(int(codes.max()) + 1, cost.shape[1]) if start is None else start
    violation = torch.inf
    for level in schedule_epsilons(cost, epsilon) if start is None else [epsilon]:
        level_tolerance = (
            tolerance if level == epsilon else max(tolerance, 0.05)
        )  # the path only leads to the last level
        g, violation = ascend_potentials(
            cost, codes, g, lambda *_: log_weights, epsilon=level, tolerance=level_tolerance, steps=steps
        )
    return TransportPlan(cost, codes, g, epsilon, violation)


def schedule_epsilons(cost: torch.Tensor, epsilon: float) -> list[float]:
    """List the levels from a fifth of the mean cost down to epsilon, by halves."""
    levels = [epsilon]
    while levels[-1] * 2 < float(cost.mean()) / 5:
        levels.append(levels[-1] * 2)
    return levels[::-1]


def ascend_potentials(
    cost: torch.Tensor,
    codes: torch.Tensor,
    g: torch.Tensor,
    compute_log_weights: WeightRule,
    *,
    epsilon: float,
    tolerance: float,
    steps: int,
) -> tuple[torch.Tensor, float]:
    """Take Sinkhorn's steps until the column sums hold.

    Args:
        cost: (n, m) cost of moving each point to each atom.
        codes: (n,) class of each point.
        g: (K, m) potentials to begin with.
        compute_log_weights: weights that the columns should have, given the mass that arrives.
        epsilon: weight of the entropy.
        tolerance: mass of a class that may be at wrong atoms.
        steps: most steps.

    Returns:
        The potentials, centered for each class, and the mass at wrong atoms in the worst class.
    """
    members = torch.nn.functional.one_hot(codes, len(g)).to(cost.dtype)
    members = members / members.sum(0)
    tiny = torch.finfo(cost.dtype).tiny
    last, relaxation = torch.inf, MAX_RELAXATION
    for step in range(steps + 1):
        h = torch.zeros_like(g)
        for rows, share in _iterate_shares(cost, codes, g, epsilon):
            h.addmm_(members[rows].mT, share)
        log_h = h.clamp(min=tiny).log()
        log_a = compute_log_weights(log_h, g, epsilon)
        violation = float((log_a.exp() - h).abs().sum(1).max())
        if violation <= tolerance or step == steps:
            break
        # Over-relax while the columns improve; a step that made them worse is followed by a plain one.
        relaxation = 1.0 if violation > last else min(MAX_RELAXATION, relaxation + 0.1)
        g = g + relaxation * epsilon * (log_a - log_h)  # eq. 2
        g, last = g - g.mean(1, keepdim=True), violation  # a constant in g changes nothing in eq. 1
    return g, violation


def _iterate_shares(
    cost: torch.Tensor, codes: torch.Tensor, g: torch.Tensor, epsilon: float
) -> Iterator[tuple[slice, torch.Tensor]]:
    g = g / epsilon
    for rows in cut_blocks(cost):
        z = g.index_select(0, codes[rows]).sub_(cost[rows], alpha=1 / epsilon)
        yield rows, torch.softmax(z, 1)  # eq. 1
