"""The barycenter of several classes of points on given atoms, with a penalty on its entropy (RAID, Lemma 1).

    min_a  sum_i lam_i W2^2(P_i, sum_q a_q delta_q) + tau sum_q a_q log a_q,   lam_i = n_i / n

Its dual, to maximize over potentials g_i of the atoms:

    H(g) = sum_i lam_i (1/n_i) sum_p g_i^c(y_p) - tau logsumexp_q(-(1/tau) c_q),   c_q = sum_i lam_i g_i(q),
    g_i^c(y) = min_q |y - atom_q|^2 - g_i(q),   supergradient lam_i (a - h_i),   a = softmax(-c / tau).

Departs: eq. 13 of the paper drops the 1/n_i that its eq. 18 has. Supergradients never settle; we climb H with the
minimum made soft, by Sinkhorn's step with weights that follow in closed form, log a = epsilon/(epsilon + tau)
sum_i lam_i (log h_i - g_i/epsilon) + constant, and let epsilon fall until the gap between H itself and the cost of a
plan whose columns hold is small. So the result is that of H, and how far it is from the best is known.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from recveil.core.errors import UsageError
from recveil.transport.distances import compute_squared_distances, cut_blocks
from recveil.transport.sinkhorn import TransportPlan, WeightRule, ascend_potentials

__all__ = ["Barycenter", "fit_barycenter", "compute_dual_value", "fit_free_barycenter"]

INITIAL_TOLERANCE = 0.05
"""How much of a class may be at wrong atoms before that is what keeps the gap open."""

MAX_ROUNDS = 40
"""How often epsilon or what may be at wrong atoms is halved; float32 has nothing left to give long before."""


@dataclass(frozen=True, eq=False)
class Barycenter:
    """Atoms with weights; `value` is transport plus penalty, at most `gap` above the least possible."""

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
    """The best weights of these atoms; ends when the gap is under this share of the objective or of its transport part.

    `codes` are 0..K-1 and every class has points. `start` are the potentials of an earlier one to begin with.
    `steps` bounds the steps between two looks at the gap; where they run out, `gap` says how far it came.
    """
    if not tau >= 0:
        raise UsageError(f"tau must not be negative; got {tau:g}.")
    cost = compute_squared_distances(x, atoms)
    lam = torch.bincount(codes).to(x.dtype) / len(x)
    g = x.new_zeros(len(lam), len(atoms)) if start is None else start

    def weigh(log_h: torch.Tensor, g: torch.Tensor, epsilon: float) -> torch.Tensor:
        return torch.log_softmax(lam @ (epsilon * log_h - g) / (epsilon + tau), 0)

    epsilon, aim = (float(cost.mean()) or 1.0) / 5, INITIAL_TOLERANCE
    for _ in range(MAX_ROUNDS):
        g, violation = ascend_potentials(cost, codes, g, weigh, epsilon=epsilon, tolerance=aim, steps=steps)
        found, soft = _evaluate_plan(TransportPlan(cost, codes, g, epsilon, violation), atoms, weigh, tau)
        if found.gap <= tolerance * max(found.transport, abs(found.value)):
            break
        if soft > found.gap / 2:
            epsilon /= 2
        else:
            aim /= 2
    return found


def fit_free_barycenter(
    x: torch.Tensor, codes: torch.Tensor, atoms: torch.Tensor, *, tau: float, tolerance: float = 1e-3, moves: int = 20
) -> Barycenter:
    """The same with atoms that move: in turn the best weights, and each atom to the mean of what it receives.

    Cuturi and Doucet (2014), Algorithm 2. Each move lowers the objective; a local optimum, not the best of all.
    """
    found = fit_barycenter(x, codes, atoms, tau=tau, tolerance=tolerance)
    for _ in range(moves):
        mass, where = x.new_zeros(len(atoms)), torch.zeros_like(atoms)
        for rows, share in found.plan.iterate_shares():  # lam_i / n_i is 1 / n for every point
            mass += share.sum(0)
            where += share.mT @ x[rows]
        moved = torch.where(mass[:, None] > 1e-6, where / mass.clamp(min=1e-6)[:, None], found.atoms)
        following = fit_barycenter(x, codes, moved, tau=tau, tolerance=tolerance)
        gain = found.value - following.value
        if gain > 0:
            found = following
        if gain <= tolerance * abs(found.value):
            break
    return found


def compute_dual_value(cost: torch.Tensor, codes: torch.Tensor, g: torch.Tensor, tau: float) -> float:
    """H(g), a lower bound of the objective whatever the potentials are."""
    c = torch.bincount(codes, minlength=len(g)).to(cost.dtype) / len(codes) @ g
    soft_least = -tau * torch.logsumexp(-c / tau, 0) if tau else c.min()
    nearest = [(cost[rows] - g[codes[rows]]).amin(1).sum() for rows in cut_blocks(cost)]
    return float(torch.stack(nearest).sum()) / len(cost) + float(soft_least)


def _evaluate_plan(plan: TransportPlan, atoms: torch.Tensor, weigh: WeightRule, tau: float) -> tuple[Barycenter, float]:
    """What the plan is worth once its columns hold, how far that is from H, and how much of this is softness.

    Atoms that receive too much give it back, and it goes to those that lack some (Altschuler et al. 2017). Softness:
    what users lose who go to several atoms where H lets each go to the best one; a smaller epsilon has less of it.
    """
    h = torch.zeros_like(plan.potentials)
    n = torch.bincount(plan.codes).to(h.dtype)
    for rows, share in plan.iterate_shares():
        h.index_add_(0, plan.codes[rows], share)
    h = h / n[:, None]
    tiny = torch.finfo(h.dtype).tiny
    a = weigh(h.clamp(min=tiny).log(), plan.potentials, plan.epsilon).exp()
    kept = (a / h.clamp(min=tiny)).clamp(max=1)
    lack = a - h * kept
    lack = lack / lack.sum(1, keepdim=True).clamp(min=tiny)
    transport, soft = 0.0, 0.0
    for rows, share in plan.iterate_shares():
        reduced = plan.cost[rows] - plan.potentials[plan.codes[rows]]
        soft += float((share * (reduced - reduced.amin(1, keepdim=True))).sum()) / len(plan.codes)
        share = share * kept[plan.codes[rows]]
        share = share + (1 - share.sum(1, keepdim=True)) * lack[plan.codes[rows]]
        transport += float((share * plan.cost[rows]).sum()) / len(plan.codes)
    value = transport + tau * float(torch.xlogy(a, a).sum())
    gap = value - compute_dual_value(plan.cost, plan.codes, plan.potentials, tau)
    return Barycenter(atoms, a, transport, value, gap, plan), soft
