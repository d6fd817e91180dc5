"""Parts of the result of a membership audit."""

from __future__ import annotations

from typing import Any

from recveil.core.result_parts import EstimateField, Number, Part, Verdict

__all__ = [
    "FilteredCounts",
    "ListDefenseSummary",
    "MembershipAttackResult",
    "MembershipFindings",
    "MembershipFrontier",
    "MembershipFrontierPoint",
    "MembershipInput",
    "MembershipProtocol",
    "MembershipUtility",
    "OperatingPoint",
    "ReferenceProtocol",
    "ServedHits",
    "ServingRule",
]


class OperatingPoint(Part):
    """Share of members found at a false positive rate, with the rate that was realized."""

    value: Number
    low: Number
    high: Number
    n: int
    realized_fpr: EstimateField


class MembershipAttackResult(Part):
    """What one attack, or one rule, reached on the target.

    `is_clear`: the AUC differs from one half at the level that a leak needs (joint 99.9 %; `auc` shows 95 %).
    `ahead_of_rules` is its AUC less that of the rule hardest to beat; null for rules. `tpr_at_fpr` is null where there
    are too few non-members to speak of the rate.
    """

    auc: EstimateField
    tpr_at_fpr: dict[str, OperatingPoint | None]
    balanced_accuracy: EstimateField
    threshold: Number
    is_rule: bool
    is_clear: bool = False
    inverted: bool
    ahead_of_rules: EstimateField | None
    explained_by_rule: bool


class MembershipFindings(Part):
    """Verdict, scores and curves of one membership audit; `roc` holds pairs of false and true positive rate."""

    n_users: int
    n_members: int | None
    verdict: Verdict
    sentence: str
    best_attack: str | None
    attacks: dict[str, MembershipAttackResult]
    roc: dict[str, list[list[float]]] = {}
    notes: list[str] = []


class ServingRule(Part):
    """How lists are served: length, to non-members, and whether seen items are listed."""

    nonmembers: str
    seen: str
    k: int


class MembershipInput(Part):
    """What was attacked."""

    name: str
    n_users: int
    n_items: int
    item_vectors: str
    model: str | None = None
    shadow_model: str | None = None
    shadow_data: str | None = None
    serving: ServingRule | None = None
    user_minimum: int | None = None
    item_minimum: int | None = None


class ReferenceProtocol(Part):
    """Reference models and the signal taken from their scores."""

    n: int
    signal: str


class MembershipProtocol(Part):
    """Rules under which membership attacks were run."""

    attacks: list[str]
    rules: list[str]
    kind: str
    margin: float
    seed: int
    attack_options: dict[str, Any] = {}
    references: ReferenceProtocol | None = None


class ListDefenseSummary(Part):
    """Which defense of the lists was applied, with its options."""

    name: str
    options: dict[str, Any] = {}


class FilteredCounts(Part):
    """Users, items and interactions that the filters left and took."""

    users: int
    interactions: int
    users_short: int
    items_rare: int
    items_absent: int
    interactions_absent: int
    users_emptied: int


class ServedHits(Part):
    """How often the held-out item is in the list."""

    members: EstimateField
    non_members: EstimateField


class MembershipUtility(Part):
    """What the lists are worth; with a defense also before it, and what non-members lose."""

    after: ServedHits
    before: ServedHits | None = None
    non_member_change: EstimateField | None = None


class MembershipFrontierPoint(Part):
    """One way to build or serve the recommender: what the best attack reaches on it, and what its lists are worth.

    `cost` is the loss of the hit rate relative to the audited model; `max_auc` bounds every attack, where there is a
    guarantee. Numbers are null where the point could not be measured, and `reason` says why.
    """

    kind: str
    label: str
    model: str
    options: dict[str, Any] = {}
    serving: str
    auc: EstimateField | None = None
    attack: str | None = None
    max_auc: Number | None = None
    hit_rate: EstimateField | None = None
    cost: Number | None = None
    reason: str = ""

    @property
    def change(self) -> float | None:
        """Relative change of the hit rate in hundredths; what rounds to nothing is 0 and never -0."""
        return None if self.cost is None else 0.0 - round(self.cost, 2)


class MembershipFrontier(Part):
    """Privacy and price of several defenses on the audited data.

    `measured_choice` is the cheapest point on which no attack exceeds `limit`, `guaranteed_choice` the cheapest among
    those with a guarantee; null where there is none.
    """

    points: list[MembershipFrontierPoint]
    n_references: int
    limit: float
    measured_choice: int | None
    guaranteed_choice: int | None
