"""The membership audit: all attacks and rules on one game."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from recveil.attacks.membership.rules import RULES, learn_rule_directions, score_rules
from recveil.audits.membership.demonstrations import (
    COMPARISON,
    LABEL_LEAK,
    check_mistake,
    commit_comparison,
    leak_labels,
    write_warning,
)
from recveil.audits.membership.game import MembershipGame
from recveil.core.errors import DataError, UsageError
from recveil.core.membership_parts import MembershipAttackResult, OperatingPoint
from recveil.core.protocols import MembershipAttack
from recveil.core.random import make_generator
from recveil.core.types import BoolArray, Estimate, FloatArray, IntArray, Shadow, Watched
from recveil.metrics import roc
from recveil.metrics.intervals import CLEAR_LEVEL, CONFIDENCE_LEVEL

__all__ = ["FALSE_POSITIVE_RATES", "MembershipAudit", "differs_from_chance", "run_membership_attacks"]

FALSE_POSITIVE_RATES = (0.001, 0.01)
"""The false positive rates at which the share of members found is reported."""


@dataclass(frozen=True, eq=False)
class MembershipAudit:
    """Results of the attacks and rules on one target.

    Attributes:
        attacks: results by name; empty where the members of the target are not known.
        scores: scores of single users by name; no document holds them.
        users: rows of the scored users.
        truth: the true members among the scored users, where they are known.
        notes: what was left out.
    """

    attacks: dict[str, MembershipAttackResult]
    scores: dict[str, FloatArray] = field(repr=False)
    users: IntArray = field(repr=False)
    truth: BoolArray | None = field(repr=False)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class _ScoredAttack:
    """Scores of the target's users, and the threshold of membership."""

    scores: FloatArray
    threshold: float


def run_membership_attacks(
    game: MembershipGame,
    attacks: Mapping[str, MembershipAttack],
    *,
    seed: int,
    inductive: bool = False,
    jointly: bool = True,
    demonstrate: str = "",
) -> MembershipAudit:
    """Run the rules and the attacks on a game.

    Args:
        game: shadow worlds and target.
        attacks: attacks by name; the rules need no naming.
        seed: seed of everything random.
        inductive: attacks look at the lists of a random half of the target's users and score the other half, instead of
            looking at the lists of the users that they score. They never see the members.
        jointly: the intervals of all AUCs hold together with 95 % probability (Sidak). With ten single intervals, one
            table in four without a leak would raise an alarm. False gives single ones; `is_clear` stays joint.
        demonstrate: a published mistake to commit on purpose; see `demonstrations`. Empty for none.

    Returns:
        The audit; without results where the members of the target are not known.

    Raises:
        UsageError: an attack has the name of a rule.
        DataError: an attack returned scores that are not finite, or not one for each user.
    """
    looked_at, users = _choose_users(len(game.target.lists), inductive=inductive, seed=seed)
    check_mistake(demonstrate)
    reference, target = game.target.take(looked_at), game.target.take(users)
    leaked = None if game.truth is None else game.truth[looked_at]
    worlds = leak_labels(game.shadows, reference, leaked) if demonstrate == LABEL_LEAK else game.shadows
    scored = _score_by_rules(game.shadows, target)
    for name, attack in attacks.items():
        if name in scored:
            raise UsageError(f"'{name}' is the name of a rule or of another attack. Give the attack another name.")
        mistaken = commit_comparison(attack, leaked) if demonstrate == COMPARISON else attack
        fitted = mistaken.fit(
            worlds,
            reference=None if demonstrate == LABEL_LEAK else reference,
            rng=make_generator(seed, "membership", name),
        )
        scored[name] = _score_by_attack(name, fitted, game.shadows, target)
    truth = None if game.truth is None else game.truth[users]
    level = CONFIDENCE_LEVEL ** (1 / len(scored)) if jointly else CONFIDENCE_LEVEL
    results = {} if truth is None else _evaluate_scores(truth, scored, level)
    scores = {name: entry.scores for name, entry in scored.items()}
    notes = [write_warning(demonstrate), *game.notes] if demonstrate else game.notes
    return MembershipAudit(results, scores, users, truth, notes)


def _choose_users(n: int, *, inductive: bool, seed: int) -> tuple[IntArray, IntArray]:
    """Return the users whose lists attacks may look at, and the users to score."""
    users = np.arange(n)
    if not inductive:
        return users, users
    order = make_generator(seed, "membership", "reference").permutation(users)
    return np.sort(order[: n // 2]), np.sort(order[n // 2 :])


def _score_by_rules(shadows: Sequence[Shadow], target: Watched) -> dict[str, _ScoredAttack]:
    directions = learn_rule_directions(shadows)
    shadow_scores = [score_rules(shadow.watched, directions) for shadow in shadows]
    return {
        name: _ScoredAttack(scores, _choose_threshold(shadows, [part[name] for part in shadow_scores]))
        for name, scores in score_rules(target, directions).items()
    }


def _score_by_attack(name: str, attack: MembershipAttack, shadows: Sequence[Shadow], target: Watched) -> _ScoredAttack:
    scores, n = attack.score(target), len(target.lists)
    if scores.shape != (n,) or not np.isfinite(scores).all():
        raise DataError(
            f"Attack '{name}' gave scores of shape {scores.shape} for {n} users, {int((~np.isfinite(scores)).sum())} "
            "of them not finite. It must give one number for each."
        )
    threshold = attack.threshold
    if threshold is None:
        threshold = _choose_threshold(shadows, [attack.score(shadow.watched) for shadow in shadows])
    return _ScoredAttack(scores, float(threshold))


def _choose_threshold(shadows: Sequence[Shadow], scores: Sequence[FloatArray]) -> float:
    """Choose the threshold on the shadow users, whose members the attacker knows."""
    member = np.concatenate([shadow.member for shadow in shadows])
    return roc.choose_threshold(member, np.concatenate(scores))


def _evaluate_scores(
    truth: BoolArray, scored: Mapping[str, _ScoredAttack], level: float
) -> dict[str, MembershipAttackResult]:
    results: dict[str, MembershipAttackResult] = {}
    rules_tell_something = False
    clear_level = CLEAR_LEVEL ** (1 / len(scored))
    for name, entry in scored.items():
        auc = roc.estimate_auc(truth, entry.scores, level=level)
        wide = roc.estimate_auc(truth, entry.scores, level=clear_level)
        ahead = None
        if name not in RULES:
            gaps = (roc.estimate_auc_difference(truth, entry.scores, scored[r].scores, level=level) for r in RULES)
            ahead = min(gaps, key=lambda gap: gap.low)
        results[name] = MembershipAttackResult(
            auc=auc,
            tpr_at_fpr={f"{fpr:g}": _find_operating_point(truth, entry.scores, fpr) for fpr in FALSE_POSITIVE_RATES},
            balanced_accuracy=roc.estimate_balanced_accuracy(truth, entry.scores, entry.threshold),
            threshold=entry.threshold,
            is_rule=ahead is None,
            is_clear=differs_from_chance(wide),
            inverted=auc.high < 0.5,
            ahead_of_rules=ahead,
            explained_by_rule=ahead is not None and auc.low > 0.5 and not ahead.low > 0 and rules_tell_something,
        )
        # Rules come first, so all of them are known when the first attack is judged.
        rules_tell_something |= results[name].is_rule and differs_from_chance(auc)
    return results


def differs_from_chance(auc: Estimate) -> bool:
    """Return whether the interval of an AUC leaves out one half."""
    return not auc.low <= 0.5 <= auc.high


def _find_operating_point(truth: BoolArray, scores: FloatArray, fpr: float) -> OperatingPoint | None:
    point = roc.estimate_tpr_at_fpr(truth, scores, fpr)
    if point is None:
        return None
    share: Estimate = point.tpr
    return OperatingPoint(value=share.value, low=share.low, high=share.high, n=share.n, realized_fpr=point.realized_fpr)
