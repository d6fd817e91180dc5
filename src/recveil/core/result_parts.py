"""Parts of the result documents: what was audited, what attackers reached, what recommendations are worth.

All are immutable pydantic models. Numbers are `Estimate`s with their interval; what is not a number is null in JSON.
"""

from __future__ import annotations

import math
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer

from recveil.core.types import Estimate

__all__ = [
    "ActivityGroup",
    "AttackResult",
    "AttributeProtocol",
    "ClassDistance",
    "ClassPicture",
    "ClassTarget",
    "CurvePoint",
    "DefenseSummary",
    "EstimateField",
    "Frontier",
    "FrontierPoint",
    "FrontierTarget",
    "Headline",
    "Histogram",
    "InputSummary",
    "LeakMap",
    "ListAudits",
    "Number",
    "NumericAttackResult",
    "NumericHeadline",
    "NumericTarget",
    "Part",
    "PartCounts",
    "Target",
    "Utility",
    "UtilityChange",
    "UserMap",
    "Verdict",
]


class Verdict(StrEnum):
    """What an audit concludes; one type for attributes and for membership.

    `explained` (membership only): members can be told apart, but a rule that learns nothing does it as well.
    `unknown` (membership only): nobody said who the members are.
    """

    LEAK = "leak"
    EXPLAINED = "explained"
    NONE = "none"
    INCONCLUSIVE = "inconclusive"
    UNKNOWN = "unknown"


def _parse_estimate(value: Any) -> Any:
    return Estimate.from_dict(value) if isinstance(value, dict) else value


def _parse_number(value: Any) -> Any:
    return math.nan if value is None else value


def _serialize_number(value: float) -> float | None:
    return value if math.isfinite(value) else None


EstimateField = Annotated[Estimate, BeforeValidator(_parse_estimate), PlainSerializer(Estimate.to_dict)]
Number = Annotated[float, BeforeValidator(_parse_number), PlainSerializer(_serialize_number)]
"""A float that is null in JSON where it is not finite."""

Estimates = dict[str, EstimateField]


class Part(BaseModel):
    """Base of all parts of a result: immutable, and strict about unknown names."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=True)


class InputSummary(Part):
    """What was handed in."""

    name: str
    n_users: int
    d: int | None = None
    n_items: int | None = None
    n_interactions: int | None = None
    model: str | None = None
    sample: str | None = None


class AttributeProtocol(Part):
    """Rules under which attribute attacks were run."""

    panel: str
    attacks: list[str]
    folds: int
    repeats: int
    inner_folds: int
    margin: float
    attacker: str = "adaptive"
    surface: str = "user vectors"
    p_value: str
    leak_ratio: float | None = None
    seed: int


class AttackResult(Part):
    """What one attacker reached on the attacked users of a class attribute."""

    balanced_accuracy: EstimateField
    advantage: EstimateField
    accuracy: EstimateField
    macro_f1: EstimateField
    auc: EstimateField
    recall: Estimates
    inverted: bool
    degenerate: bool


class Headline(AttackResult):
    """What the strongest attacker reached; `fold_shares` is the share of folds in which each attacker was chosen."""

    attack: str
    p_value: Number
    fold_shares: dict[str, float]


class NumericAttackResult(Part):
    """What one attacker reached on a number."""

    advantage: EstimateField
    r2: EstimateField
    correlation: EstimateField
    inverted: bool
    degenerate: bool


class NumericHeadline(NumericAttackResult):
    """What the strongest attacker reached on a number."""

    attack: str
    p_value: Number
    fold_shares: dict[str, float]


class Histogram(Part):
    """Density of one class between edges along the direction that separates the classes best."""

    edges: list[float]
    density: list[float]


class UserMap(Part):
    """Share of one class in each cell of a square grid; null where a cell holds too few users to be shown."""

    bins: int
    shares: list[float | None]
    mean: list[float]


class ClassPicture(Part):
    """One class along the directions that separate the classes best."""

    label: str
    users: int
    histogram: Histogram
    map: UserMap | None = None


class ClassDistance(Part):
    """Squared distance of the means of two classes, and what it stays under in 95 % of tables without a leak."""

    classes: list[str]
    value: float
    chance: float


class LeakMap(Part):
    """Directions in which the classes separate, fitted on one half of the users and drawn for the other."""

    n_fitted: int
    n_drawn: int
    ranges: list[list[float] | None]
    classes: list[ClassPicture]
    distances: list[ClassDistance]


class ActivityGroup(Part):
    """Attack accuracy in one group of users by activity; `over` and `up_to` bound their interactions."""

    over: int | None
    up_to: int | None
    n: int
    balanced_accuracy: EstimateField
    advantage: EstimateField


class CurvePoint(Part):
    """The headline when the attacker knows the class of this share of the users."""

    ratio: float
    advantage: EstimateField
    balanced_accuracy: EstimateField


class ClassTarget(Part):
    """The audit of one attribute with classes."""

    kind: Literal["classes"] = "classes"
    verdict: Verdict
    sentence: str
    chance: float
    majority: float
    n: int
    labels: list[str]
    counts: dict[str, int]
    margin: float
    resolution: Number
    detectable: Number
    headline: Headline
    attacks: dict[str, AttackResult]
    confusion: list[list[Number]]
    notes: list[str] = []
    leak_map: LeakMap | None = None
    activity: list[ActivityGroup] | None = None
    curve: list[CurvePoint] | None = None
    best_possible: float | None = None
    n_undisclosed: int | None = None
    repeats_used: int | None = None


class NumericTarget(Part):
    """The audit of one number."""

    kind: Literal["number"] = "number"
    verdict: Verdict
    sentence: str
    chance: float = 0.0
    n: int
    mean: float
    spread: float
    margin: float
    resolution: Number
    detectable: Number
    headline: NumericHeadline
    attacks: dict[str, NumericAttackResult]
    notes: list[str] = []
    n_undisclosed: int | None = None
    repeats_used: int | None = None


Target = Annotated[ClassTarget | NumericTarget, Field(discriminator="kind")]


class DefenseSummary(Part):
    """Which defense was applied, to which attributes, and how far it moved the users."""

    name: str
    strength: float
    targets: list[str]
    displacement: Number
    options: dict[str, Any] = {}
    notes: list[str] = []


class UtilityChange(Part):
    """Ranking measures before and after a defense, and their paired difference."""

    before: Estimates = {}
    after: Estimates = {}
    difference: Estimates = {}


class Utility(UtilityChange):
    """What the recommendations are worth, overall and for each class of each attribute."""

    per_class: dict[str, dict[str, UtilityChange]] = {}
    note: str = ""


class ListAudits(Part):
    """Audits of the lists made from the vectors.

    Attributes:
        after_with_seen: lists that omit nothing.
        with_vectors: lists that omit nothing and the defended vectors, which who has the item vectors can compute.
    """

    before: dict[str, Target]
    after: dict[str, Target]
    after_with_seen: dict[str, Target]
    with_vectors: dict[str, Target] = {}


class FrontierTarget(Part):
    """Verdict and advantage of one attribute at one point of the frontier."""

    verdict: Verdict
    advantage: EstimateField


class FrontierPoint(Part):
    """One method at one strength."""

    method: str
    strength: float
    displacement: Number
    cost: Number
    advantage: Number
    seconds: float = 0.0
    targets: dict[str, FrontierTarget]
    ndcg_change: EstimateField | None = None


class Frontier(Part):
    """Methods at several strengths; `knee` indexes the best bargain; not all methods where these explain a price."""

    cost_measure: str
    points: list[FrontierPoint]
    knee: int
    has_all_methods: bool = True
    excluded: dict[str, str] = {}


class PartCounts(Part):
    """Parts of a large table that were written now, and that an earlier run had written."""

    written: int
    found: int
