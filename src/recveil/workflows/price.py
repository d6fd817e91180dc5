"""The price of a defense: the share of NDCG@10 that it costs, and about how much of that no other would save."""

from __future__ import annotations

from collections.abc import Sequence

from recveil.core.result_parts import Utility
from recveil.core.self_check_parts import Price
from recveil.core.types import Attribute, Estimate, FloatArray
from recveil.defenses import DEFENSES
from recveil.workflows.audit_protocol import AuditProtocol
from recveil.workflows.comparison import compare_recommendations
from recveil.workflows.defended_release import ChosenDefense, defend_vectors, describe_size_limit
from recveil.workflows.utility import Recommendations

__all__ = ["find_least_displacement", "measure_price"]

MEASURE = "ndcg@10"


def find_least_displacement() -> str:
    """Return the name of the defense that makes class means and covariances equal by least displacement."""
    return next(traits.name for traits in DEFENSES.all_traits() if traits.displaces_least)


def measure_price(
    recommendations: Recommendations,
    utility: Utility,
    x: FloatArray,
    targets: Sequence[Attribute],
    protocol: AuditProtocol,
    method: str,
) -> Price:
    """Measure the price of a defense; above the limit also that of the least displacement, to say why.

    Args:
        recommendations: how users are served.
        utility: what the recommendations are worth before and after the defense.
        x: the undefended vectors.
        targets: attributes that were protected, with classes.
        protocol: its limit, seed and device are used.
        method: name of the defense.
    """
    price = Price(limit=protocol.max_cost, share=_compute_loss(utility), method=method)
    cheapest = find_least_displacement()
    if price.is_acceptable or method == cheapest or describe_size_limit(DEFENSES.traits(cheapest), *x.shape):
        return price
    moved = defend_vectors(ChosenDefense(cheapest).make(protocol.device), x, targets, seed=protocol.draw_seed)
    least = _compute_loss(compare_recommendations(recommendations, x, moved, targets))
    return price.model_copy(update={"least": least})


def _compute_loss(utility: Utility) -> Estimate:
    """Return the loss as a share of what the recommendations were worth, 0 where that was nothing."""
    before, change = utility.before[MEASURE].value, utility.difference[MEASURE]
    unit = before if before > 0 else float("inf")
    return Estimate(-change.value / unit, -change.high / unit, -change.low / unit, change.n)
