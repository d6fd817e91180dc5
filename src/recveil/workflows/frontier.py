"""The privacy-utility frontier: every method at several strengths, attacked by one panel, priced by one measure."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from recveil.core.progress import track_progress
from recveil.core.protocols import TableView
from recveil.core.result_parts import Frontier, FrontierPoint, FrontierTarget
from recveil.core.traits import DefenseTraits
from recveil.core.types import Attribute, FloatArray
from recveil.defenses import DEFENSES
from recveil.metrics import ranking
from recveil.metrics.pareto import find_knee
from recveil.workflows.audit_protocol import AuditProtocol
from recveil.workflows.defended_release import (
    ChosenDefense,
    defend_vectors,
    describe_size_limit,
    measure_displacement,
)
from recveil.workflows.utility import Recommendations

__all__ = ["build_frontier"]

STRENGTHS = (0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True, eq=False)
class _Table:
    """The undefended table, and how points of the frontier are measured on it."""

    x: FloatArray
    targets: Sequence[Attribute]
    protocol: AuditProtocol
    recommendations: Recommendations | None
    ranks: ranking.Ranks | None
    view: TableView | None = None

    def measure_point(self, name: str, strength: float, after: FloatArray, *, seconds: float = 0.0) -> FrontierPoint:
        """Audit and price one defended table."""
        audits = self.protocol.audit_classes(after, self.targets)
        worst = max(audits, key=lambda audit: audit.headline.advantage.value)
        displacement = measure_displacement(self.x, after)
        change, cost = None, displacement
        if self.recommendations is not None and self.ranks is not None:
            before, now = (ranking.ndcg(r, 10) for r in (self.ranks, self.recommendations.rank_test_items(after)))
            change = ranking.estimate_difference(now, before)
            cost = -change.value / max(float(before.mean()), 1e-12)
        return FrontierPoint(
            method=name,
            strength=strength,
            displacement=displacement,
            cost=cost,
            advantage=worst.headline.advantage.value,
            seconds=seconds,
            targets={a.target: FrontierTarget(verdict=a.verdict, advantage=a.headline.advantage) for a in audits},
            ndcg_change=change,
        )

    def defend(self, name: str, strength: float) -> FloatArray:
        """Return the table as this method leaves it at this strength."""
        seed, device = self.protocol.seed, self.protocol.device
        method = ChosenDefense(name, {"strength": strength}).make(device)
        loss = None
        if self.recommendations is not None and DEFENSES.traits(name).needs_loss:
            loss = self.recommendations.make_loss(device=device, seed=seed)
        return defend_vectors(method, self.x, self.targets, seed=seed, utility=loss, view=self.view)


def build_frontier(
    x: FloatArray,
    targets: Sequence[Attribute],
    protocol: AuditProtocol,
    recommendations: Recommendations | None,
    *,
    names: Sequence[str] = (),
    view: TableView | None = None,
) -> Frontier:
    """Measure every method at several strengths, and the undefended table.

    Args:
        x: the undefended user vectors.
        targets: attributes to protect.
        protocol: the rules of the audits.
        recommendations: how users are served; without it the cost is the displacement.
        names: methods to measure; all if empty.
        view: what attackers see beside the vectors, for defenses that can hide it; the points are of the vectors.

    Returns:
        The points; `knee` is the best bargain among them.
    """
    ranks = recommendations.rank_test_items(x) if recommendations else None
    table = _Table(x, targets, protocol, recommendations, ranks, view)
    methods = [t for t in DEFENSES.all_traits() if t.place == "embeddings" and (not names or t.name in names)]
    excluded = {traits.name: reason for traits in methods if (reason := _exclusion_reason(traits, table))}
    points = [table.measure_point("none", 0.0, x)]
    included = [traits for traits in methods if traits.name not in excluded]
    for traits in track_progress(included, "measuring the frontier", len(included)):
        start = time.perf_counter()
        full = table.defend(traits.name, 1.0)
        seconds = time.perf_counter() - start
        for strength in STRENGTHS:
            straight = traits.blends or strength == 1
            part = x + strength * (full - x) if straight else table.defend(traits.name, strength)
            points.append(table.measure_point(traits.name, strength, np.asarray(part, np.float32), seconds=seconds))
    knee = find_knee([(point.advantage, point.cost) for point in points])
    measure = "loss of NDCG@10" if recommendations else "displacement"
    return Frontier(cost_measure=measure, points=points, knee=knee, has_all_methods=not names, excluded=excluded)


def _exclusion_reason(traits: DefenseTraits, table: _Table) -> str:
    if traits.for_comparison:
        return "it is made for training, and is here to compare with that"
    if traits.needs_loss and (table.recommendations is None or table.recommendations.items is None):
        return "it needs item vectors and interactions"
    return describe_size_limit(traits, *table.x.shape)
