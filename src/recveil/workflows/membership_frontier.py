"""The frontier of `recveil membership`: defenses at several strengths, attacked and priced on the audited data.

Every point is a target trained on the same members, attacked by reference models like it: the attacker knows the
defense. Points differ from the audited model in one thing: how members are served, the dimension, the regularization,
or a private model at some budget in its place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace

from recveil.attacks.membership.lira import LiRA
from recveil.attacks.membership.rmia import RMIA
from recveil.audits.membership.platforms import measure_overall_hit_rate, train_platform
from recveil.audits.membership.references import ReferenceModels
from recveil.audits.membership.scenarios import MethodConfig, TrainedScenario
from recveil.core.errors import DataError, UsageError
from recveil.core.membership_parts import MembershipFrontier, MembershipFrontierPoint
from recveil.core.progress import track_progress
from recveil.core.protocols import MembershipAttack, Recommender
from recveil.core.random import make_generator
from recveil.data.member_split import MemberPart
from recveil.metrics.intervals import CONFIDENCE_LEVEL
from recveil.metrics.roc import estimate_auc
from recveil.models import MODELS
from recveil.models.construction import make_model

__all__ = ["build_membership_frontier", "find_private_model"]

EPSILONS = (1.0, 2.0, 5.0, 10.0)
DIMENSION_PARTS = (2, 4, 8)
REGULARIZATION_FACTORS = (10, 100)
DEFAULT_REFERENCES = 8
ATTACKS: Mapping[str, MembershipAttack] = {"lira": LiRA(), "lira offline": LiRA(kind="offline"), "rmia": RMIA()}


@dataclass(frozen=True)
class _Candidate:
    """One point to measure."""

    kind: str
    label: str
    config: MethodConfig
    serving: str


@dataclass(frozen=True)
class _Measurement:
    """What all points have in common."""

    scenario: TrainedScenario
    part: MemberPart
    references: ReferenceModels
    seed: int
    device: str | None

    def measure(self, candidate: _Candidate) -> MembershipFrontierPoint:
        """Train, attack and price one point; one that cannot be trained says why."""
        point = MembershipFrontierPoint(
            kind=candidate.kind,
            label=candidate.label,
            model=candidate.config.name,
            options=dict(candidate.config.options),
            serving=candidate.serving,
        )
        try:
            return point.model_copy(update=self._attack(candidate))
        except (DataError, UsageError) as error:
            return point.model_copy(update={"reason": str(error)})

    def _attack(self, candidate: _Candidate) -> dict[str, object]:
        def make() -> Recommender:
            return make_model(candidate.config.name, self.scenario.data, candidate.config.options, self.device)

        policy = replace(self.scenario.policy, nonmembers=candidate.serving)
        # The same generators for all points: they differ in the defense alone.
        rng = make_generator(self.seed, "membership", "target")
        target = train_platform(self.part, make(), policy, rng=rng)
        rng = make_generator(self.seed, "membership", "references")
        signals = self.references.collect_signals(self.part, target, make, rng=rng)
        served = target.serve_lists(None, signals)
        level = CONFIDENCE_LEVEL ** (1 / len(ATTACKS))
        aucs = {
            name: estimate_auc(self.part.member, attack.score(served.watched), level=level)
            for name, attack in ATTACKS.items()
        }
        best = max(aucs, key=lambda name: aucs[name].value)
        return {
            "auc": aucs[best],
            "attack": best,
            "max_auc": None if target.guarantee is None else target.guarantee.max_auc,
            "hit_rate": measure_overall_hit_rate(served),
        }


def build_membership_frontier(
    scenario: TrainedScenario, margin: float, seed: int, device: str | None
) -> MembershipFrontier:
    """Measure the audited model and its alternatives.

    Args:
        scenario: the audited model and its data.
        margin: distance of an AUC from one half; a choice may reach twice that.
        seed: seed of everything random; the members are those of the audit.
        device: device to train on; None chooses one.
    """
    references = scenario.references or ReferenceModels(DEFAULT_REFERENCES, device=device)
    measurement = _Measurement(scenario, scenario.split_users(seed).target, references, seed, device)
    candidates = list(_list_candidates(scenario, device))
    steps = track_progress(candidates, "measuring the frontier", len(candidates))
    points = _price([measurement.measure(candidate) for candidate in steps])
    limit = 0.5 + 2 * margin
    return MembershipFrontier(
        points=points,
        n_references=references.n,
        limit=limit,
        measured_choice=_find_cheapest(points, limit, guaranteed=False),
        guaranteed_choice=_find_cheapest(points, limit, guaranteed=True),
    )


def find_private_model() -> str:
    """Return the model to recommend where members must be protected."""
    return next(traits.name for traits in MODELS.all_traits() if traits.protects_members)


def _list_candidates(scenario: TrainedScenario, device: str | None) -> Iterator[_Candidate]:
    """List the audited model first, then what could take its place."""
    target, private = scenario.target, find_private_model()
    serving = "fold-in" if scenario.policy.nonmembers == "popular" else scenario.policy.nonmembers
    yield _Candidate("none", f"{target.name}, as audited", target, serving)
    yield _Candidate("serving", f"{target.name}, members folded in too", target, "fold-in-all")
    options = _read_options(make_model(target.name, scenario.data, target.options, device))
    for kind, name, value in _list_variations(options):
        config = MethodConfig(target.name, {**target.options, name: value})
        yield _Candidate(kind, f"{target.name}, {name} {value:g}", config, serving)
    kept = target.options if target.name == private else {}
    kept = {name: value for name, value in kept.items() if name not in ("epsilon", "noise")}
    for epsilon in EPSILONS:
        config = MethodConfig(private, {**kept, "epsilon": epsilon})
        yield _Candidate("epsilon", f"{private}, epsilon {epsilon:g}", config, serving)


def _list_variations(options: Mapping[str, object]) -> Iterator[tuple[str, str, float]]:
    """Yield smaller dimensions and stronger regularization, where the model has such options."""
    size, reg = options.get("embedding_size"), options.get("reg")
    if isinstance(size, int):
        for part in DIMENSION_PARTS:
            if size // part >= 1:
                yield "dimension", "embedding_size", size // part
    if isinstance(reg, float) and reg > 0:
        for factor in REGULARIZATION_FACTORS:
            yield "regularization", "reg", reg * factor


def _read_options(model: object) -> dict[str, object]:
    if not is_dataclass(model):
        return {}
    return {entry.name: vars(model)[entry.name] for entry in fields(model) if entry.init}


def _price(points: Sequence[MembershipFrontierPoint]) -> list[MembershipFrontierPoint]:
    """State what each point loses of the hit rate of the first."""
    first = points[0].hit_rate
    if first is None or first.value <= 0:
        return list(points)
    return [
        point if point.hit_rate is None else point.model_copy(update={"cost": 1 - point.hit_rate.value / first.value})
        for point in points
    ]


def _find_cheapest(points: Sequence[MembershipFrontierPoint], limit: float, *, guaranteed: bool) -> int | None:
    """Find the cheapest point whose AUC stays under the limit; with a guarantee if asked for."""
    costs = {
        place: point.cost
        for place, point in enumerate(points)
        if point.auc is not None
        and point.auc.high <= limit
        and point.cost is not None
        and (point.max_auc is not None or not guaranteed)
    }
    return min(costs, key=lambda place: costs[place], default=None)
