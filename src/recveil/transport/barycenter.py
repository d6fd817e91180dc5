"""Wasserstein barycenter of several classes of points on given atoms, with a penalty on its entropy (RAID, Lemma 1).

With class shares lam_i = n_i / n the weights a of the atoms solve

    min_a  sum_i lam_i W2^2(P_i, sum_q a_q delta_q) + tau sum_q a_q log a_q.

The dual is to maximize over potentials g_i of the atoms

    H(g) = sum_i lam_i (1/n_i) sum_p g_i^c(y_p) - tau logsumexp_q(-(1/tau) c_q),   c_q = sum_i lam_i g_i(q),
    g_i^c(y) = min_q |y - atom_q|^2 - g_i(q),   supergradient lam_i (a - h_i),   a = softmax(-c / tau),

where h_i(q) is the mass of class i whose nearest atom, less its potential, is q.

Departs: eq. 13 of the paper drops the 1/n_i that its eq. 18 has. Supergradient steps do not settle on a point. Here the
minimum in g^c is softened by a temperature epsilon, which makes each step Sinkhorn's, with weights in closed form,

    log a = epsilon / (epsilon + tau) sum_i lam_i (log h_i - g_i / epsilon) + constant,

and epsilon falls until the gap between H itself and the cost of a feasible plan is small. So the result is an optimum
of the unsoftened H, up to a gap that is known.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from recveil.core.errors import UsageError
from recveil.transport.distances import compute_squared_distances, cut_blocks
from recveil.transport.sinkhorn import TransportPlan, WeightRule, ascend_potentials

__all__ = ["Barycenter", "fit_barycenter", "compute_dual_value", "fit_free_barycenter"]

INITIAL_TOLERANCE = 0.05
"""Share of a class that may be at wrong atoms at first; halved when it, and not epsilon, keeps the gap open."""

MAX_ROUNDS = 40
"""Halvings of epsilon or of the tolerance; float32 cannot resolve more."""


@dataclass(frozen=True, eq=False)
class Barycenter:
    """Atoms with weights, and how good they are.

    Attributes:
        atoms: (m, d) support of the barycenter.
        weights: (m,) weights of the atoms.
        transport: weighted cost of transporting the classes to the atoms.
        value: transport plus penalty, at most `gap` above the least possible.
        gap: primal value minus dual value.
        plan: transport plan of each class.
    """

    atoms: torch.Tensor  # (m, d)
    weights: torch.Tensor  # (m,)
    transport: float
    value: float
    gap: float
    plan: TransportPlan


def fit_barycenter(
    x: torch.Tensor,
    codes: torch.Tensor,
    atoms: torch.Tensor,
    *,
    tau: float,
    tolerance: float = 1e-3,
    steps: int = 300,
    start: torch.Tensor | None = None,
) -> Barycenter:
    """Fit the best weights of given atoms.

    Args:
        x: (n, d) points.
        codes: (n,) class of each point, 0..K-1; every class has points.
        atoms: (m, d) atoms.
        tau: weight of the entropy penalty.
        tolerance: gap to stop at, as a share of the objective or of its transport part.
        steps: most Sinkhorn steps between two looks at the gap.
        start: (K, m) potentials of an earlier fit to begin with.

    Returns:
        The barycenter; its `gap` says how far it is from the best one.

    Raises:
        UsageError: tau is negative.
    """
    if not tau >= 0:
        raise UsageError(f"tau is {tau:g}. It must not be negative.")
    cost = compute_squared_distances(x, atoms)
    lam = torch.bincount(codes).to(x.dtype) / len(x)
    g = x.new_zeros(len(lam), len(atoms)) if start is None else start

    def compute_log_weights(log_h: torch.Tensor, g: torch.Tensor, epsilon: float) -> torch.Tensor:
        return torch.log_softmax(lam @ (epsilon * log_h - g) / (epsilon + tau), 0)  # the closed form above

    epsilon, violation_tolerance = (float(cost.mean()) or 1.0) / 5, INITIAL_TOLERANCE
    for _ in range(MAX_ROUNDS):
        g, violation = ascend_potentials(
            cost, codes, g, compute_log_weights, epsilon=epsilon, tolerance=violation_tolerance, steps=steps
        )
        plan = TransportPlan(cost, codes, g, epsilon, violation)
        result, softness = _evaluate_plan(plan, atoms, compute_log_weights, tau)
        if result.gap <= tolerance * max(result.transport, abs(result.value)):
            break
        if softness > result.gap / 2:  # halve whichever of the two causes more of the gap
            epsilon /= 2
        else:
            violation_tolerance /= 2
    return result


def fit_free_barycenter(
    x: torch.Tensor, codes: torch.Tensor, atoms: torch.Tensor, *, tau: float, tolerance: float = 1e-3, moves: int = 20
) -> Barycenter:
    """Fit weights and positions of the atoms, in turn.

    Algorithm 2 of Cuturi and Doucet (2014).

    Each atom moves to the mean of the mass it receives. Each move lowers the objective; the result is a local optimum.

    Args:
        x: (n, d) points.
        codes: (n,) class of each point.
        atoms: (m, d) atoms to start from.
        tau: weight of the entropy penalty.
        tolerance: gain, as a share of the objective, below which moving stops.
        moves: most moves.

    Returns:
        The barycenter with the lowest objective.
    """
    best = fit_barycenter(x, codes, atoms, tau=tau, tolerance=tolerance)
    for _ in range(moves):
        mass, weighted_sum = x.new_zeros(len(atoms)), torch.zeros_like(atoms)
        for rows, share in best.plan.iterate_shares():  # lam_i / n_i is 1 / n for every point
            mass += share.sum(0)
            weighted_sum += share.mT @ x[rows]
        moved = torch.where(mass[:, None] > 1e-6, weighted_sum / mass.clamp(min=1e-6)[:, None], best.atoms)
        following = fit_barycenter(x, codes, moved, tau=tau, tolerance=tolerance)
        gain = best.value - following.value
        if gain > 0:
            best = following
        if gain <= tolerance * abs(best.value):
            break
    return best


def compute_dual_value(cost: torch.Tensor, codes: torch.Tensor, g: torch.Tensor, tau: float) -> float:
    """Compute H(g), a lower bound of the objective for any potentials."""
    c = torch.bincount(codes, minlength=len(g)).to(cost.dtype) / len(codes) @ g
    soft_least = -tau * torch.logsumexp(-c / tau, 0) if tau else c.min()
    nearest = [(cost[rows] - g[codes[rows]]).amin(1).sum() for rows in cut_blocks(cost)]
    return float(torch.stack(nearest).sum()) / len(cost) + float(soft_least)


def _evaluate_plan(
    plan: TransportPlan, atoms: torch.Tensor, compute_log_weights: WeightRule, tau: float
) -> tuple[Barycenter, float]:
    """Compute cost and gap of the plan made feasible, and epsilon's part of the gap.

    The plan is rounded as in Altschuler et al. (2017): atoms that receive too much give it back, and it goes to atoms
    that lack mass. The part due to epsilon is what points lose by going to several atoms where H lets each go to the
    best one; a smaller epsilon shrinks it.
    """
    h = torch.zeros_like(plan.potentials)
    n = torch.bincount(plan.codes).to(h.dtype)
    for rows, share in plan.iterate_shares():
        h.index_add_(0, plan.codes[rows], share)
    h = h / n[:, None]
    tiny = torch.finfo(h.dtype).tiny
    a = compute_log_weights(h.clamp(min=tiny).log(), plan.potentials, plan.epsilon).exp()
    # Rounding: scale columns with too much mass down, then spread each row's missing mass over columns with too little.
    scale = (a / h.clamp(min=tiny)).clamp(max=1)
    lack = a - h * scale
    lack = lack / lack.sum(1, keepdim=True).clamp(min=tiny)
    transport, softness = 0.0, 0.0
    for rows, share in plan.iterate_shares():
        reduced = plan.cost[rows] - plan.potentials[plan.codes[rows]]
        softness += float((share * (reduced - reduced.amin(1, keepdim=True))).sum()) / len(plan.codes)
        share = share * scale[plan.codes[rows]]
        share = share + (1 - share.sum(1, keepdim=True)) * lack[plan.codes[rows]]
        transport += float((share * plan.cost[rows]).sum()) / len(plan.codes)
    value = transport + tau * float(torch.xlogy(a, a).sum())
    gap = value - compute_dual_value(plan.cost, plan.codes, plan.potentials, tau)
    return Barycenter(atoms, a, transport, value, gap, plan), softness
