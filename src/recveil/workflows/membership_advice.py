"""What to do after a membership audit: which defense, at which price."""

from __future__ import annotations

from recveil.attacks.membership import MEMBERSHIP_ATTACKS
from recveil.core.membership_parts import MembershipFrontier, MembershipFrontierPoint
from recveil.core.result_parts import Verdict
from recveil.core.results import MembershipResult
from recveil.metrics.gaussian_privacy import bound_attack_auc, calibrate_mu
from recveil.workflows.membership_frontier import find_private_model

__all__ = ["advise_on_members"]

ADVISED_EPSILON, ADVISED_DELTA = 2.0, 1e-5
BOUND_COUNTS = (
    "Plan with that bound: attackers who simulate the noisy releases reach more than those measured here. The frontier "
    "has the prices of smaller budgets."
)
HIGH_COST = 0.5
"""Loss of the hit rate from which a guarantee asks for more users."""


def advise_on_members(result: MembershipResult) -> list[str]:
    """Say what was seen, which serving rule is responsible, and what to do at which price."""
    advice = [_describe_view(result)]
    if result.verdict == Verdict.EXPLAINED:
        advice.append(_blame_serving(result))
    if result.frontier is not None:
        return [*advice, *_choose_from_frontier(result.frontier, result.n_members)]
    is_open = result.privacy is None and result.input.model != find_private_model()
    if is_open and result.verdict in (Verdict.LEAK, Verdict.INCONCLUSIVE, Verdict.EXPLAINED):
        advice.append(_recommend_private_model(result))
    return advice


def _describe_view(result: MembershipResult) -> str:
    """Say what the attacker saw."""
    references = result.protocol.references
    if references is None:
        return (
            "The attacker saw histories and lists, no scores. Attacks on scores are stronger: add "
            "`--attacks lira,rmia` to measure them."
        )
    view = "ranks of all items" if references.signal == "rank-percentile" else "scores of all items"
    attacks = [f"'{name}'" for name in result.protocol.attacks if MEMBERSHIP_ATTACKS.traits(name).needs_references]
    knows = ""
    if result.privacy is not None:
        knows = (
            " It knew the mechanism and the released items. Attackers who simulate the noisy releases as well reach "
            "more; the bound covers them."
        )
    return (
        f"The attacker saw histories and lists; {' and '.join(attacks)} saw the {view} as well, and trained "
        f"{references.n} models like the target.{knows}"
    )


def _blame_serving(result: MembershipResult) -> str:
    """Name the rule that serves members and non-members differently."""
    serving = result.input.serving
    if serving is None:
        return "Serve members and non-members by one rule, and audit again: the rule they are served by separates them."
    if serving.seen == "paper":
        return "Lists omit seen items for non-members only. Omit them for everybody (`--seen excluded`)."
    if serving.nonmembers == "popular":
        return (
            "Non-members get the most popular items, members get the model's. Fold in both (`--serving fold-in-all`)."
        )
    return (
        "Members are served from vectors of the training, non-members by fold-in, and lists omit seen items. Fold in "
        "both (`--serving fold-in-all`); what then remains comes from the items."
    )


def _recommend_private_model(result: MembershipResult) -> str:
    bound = bound_attack_auc(calibrate_mu(ADVISED_EPSILON, ADVISED_DELTA))
    options = f"--model {find_private_model()} --option epsilon={ADVISED_EPSILON}"
    price = " Add `--frontier` to see its price on these data." if result.input.model is not None else ""
    return (
        f"Train with a guarantee: `{options}` keeps every attack, known or not, under an AUC of {bound:.3f} (delta "
        f"{ADVISED_DELTA:g}).{price}"
    )


def _choose_from_frontier(frontier: MembershipFrontier, n_members: int | None) -> list[str]:
    lines = []
    if frontier.guaranteed_choice is not None:
        point = frontier.points[frontier.guaranteed_choice]
        lines.append(f"With a guarantee: {_describe_point(point)}.")
        if point.max_auc is not None and point.max_auc > frontier.limit:
            lines.append(BOUND_COUNTS)
        if point.cost is not None and point.cost > HIGH_COST and n_members is not None:
            lines.append(f"That is the price for {n_members:,} members. A guarantee costs less with more of them.")
    measured = frontier.measured_choice
    if measured is not None and measured != frontier.guaranteed_choice:
        rest = "It holds for these attacks only" if frontier.points[measured].max_auc is None else "It has a guarantee"
        lines.append(f"Cheapest by measurement: {_describe_point(frontier.points[measured])}. {rest}.")
    if not lines:
        lines.append(
            f"No point of the frontier keeps every attack under an AUC of {frontier.limit:g}. Use more users or a "
            "smaller epsilon, or do not expose scores."
        )
    return lines


def _describe_point(point: MembershipFrontierPoint) -> str:
    parts = [point.label]
    if point.auc is not None:
        bound = "" if point.max_auc is None else f", and no attack exceeds {point.max_auc:.3f}"
        parts.append(
            f"the best attack reaches {point.auc.value:.3f} [{point.auc.low:.3f}, {point.auc.high:.3f}]{bound}"
        )
    if point.change is not None:
        parts.append(f"the hit rate of lists changes by {point.change:+.0%}")
    return "; ".join(parts)
