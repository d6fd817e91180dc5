"""The membership game: can an outsider who sees histories and lists tell whom a recommender was trained on?

    parts = three_way(dataset, rng=rng)
    vectors = factor_items(parts.item_part, LFM(), rng=rng)
    shadow = serve(parts.shadow, ALS(), Policy(), vectors, rng=rng)
    target = serve(parts.target, ALS(), Policy(), vectors, rng=rng)
    found = attack(game_of(shadow, target), {"biased": Biased()}, seed=0)

Attacks learn from shadow worlds and see of the target what `Watched` holds. Who is a member of the target is used once,
after every score is there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recveil.attacks.membership.difference_vectors import count_missing_vectors
from recveil.attacks.membership.reference_attacks import Evidence, ReferenceAttack
from recveil.attacks.membership.rules import Rules
from recveil.audits.membership.platforms import ServedPlatform
from recveil.core.errors import DataError, UsageError
from recveil.core.protocols import MembershipAttack
from recveil.core.random import generator
from recveil.core.types import Estimate, FloatArray, IntArray, Scores, Shadow, Watched
from recveil.metrics.intervals import LEVEL
from recveil.metrics.roc import Operating, auc, auc_difference, balanced_accuracy, best_threshold, tpr_at_fpr

__all__ = [
    "EXPLAINED",
    "FALSE_POSITIVE_RATES",
    "Found",
    "MembershipGame",
    "MembershipAudit",
    "run_membership_attacks",
    "game_of",
]

FALSE_POSITIVE_RATES = (0.001, 0.01)
"""The false positive rates at which the share of members found is reported."""

EXPLAINED = "explained by the serving rule"


@dataclass(frozen=True, eq=False)
class MembershipGame:
    """Shadow worlds whose members are known, the target, and apart from it the truth, where anybody knows it.

    `shadow_users` and `target_users` are the users' own ids, where at hand, to see that nobody is in both. `evidence`
    is what reference models say of the target's users, for the attacks that need some.
    """

    shadows: Sequence[Shadow]
    target: Watched
    truth: NDArray[np.bool_] | None = None
    shadow_users: NDArray[Any] | None = None
    target_users: NDArray[Any] | None = None
    evidence: Evidence | None = None

    def __post_init__(self) -> None:
        if not self.shadows:
            raise UsageError("No shadow world was given. Attacks and rules learn from at least one.")
        for shadow in self.shadows:
            _check(shadow.watched, "shadow")
            _check_members(shadow.member, shadow.watched, "shadow")
        _check(self.target, "target")
        if self.truth is not None:
            _check_members(self.truth, self.target, "target")
        if self.shadow_users is not None and self.target_users is not None:
            both = np.intersect1d(self.shadow_users, self.target_users)
            if len(both):
                raise DataError(
                    f"{len(both)} users are in both shadow and target, such as '{both[0]}'. An attack would know what "
                    "it is asked: leave them out of one."
                )

    @property
    def notes(self) -> list[str]:
        """What was left out of the item vectors' means, to be said beside the numbers."""
        said = []
        for name, watched in [*(("shadow", s.watched) for s in self.shadows), ("target", self.target)]:
            if watched.item_vectors is None:
                continue
            lost = count_missing_vectors(watched)
            if lost.touched or lost.listed:
                said.append(
                    f"In the {name}, {lost.listed:,} listed and {lost.touched:,} touched items have no item vector and "
                    "were left out of the difference vectors."
                )
        return said


@dataclass(frozen=True, eq=False)
class Found:
    """What one attack, or one rule, reached on the target. `ahead` is its AUC less that of the rule hardest to beat.

    `tpr_at_fpr` holds None where there are too few non-members to speak of the rate.
    """

    auc: Estimate
    tpr_at_fpr: dict[float, Operating | None]
    balanced_accuracy: Estimate
    threshold: float
    ahead: Estimate | None

    @property
    def rule(self) -> bool:
        """Whether this is one of the rules."""
        return self.ahead is None

    @property
    def inverted(self) -> bool:
        """Whether it is wrong more often than chance, which tells as much: turned round, it finds members."""
        return self.auc.high < 0.5

    @property
    def explained(self) -> bool:
        """Whether it is above chance and yet not above every rule."""
        return self.ahead is not None and self.auc.low > 0.5 and not self.ahead.low > 0

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        rates = {f"{fpr:g}": None if at is None else at.to_dict() for fpr, at in self.tpr_at_fpr.items()}
        return {
            "auc": self.auc.to_dict(),
            "tpr_at_fpr": rates,
            "balanced_accuracy": self.balanced_accuracy.to_dict(),
            "threshold": self.threshold,
            "rule": self.rule,
            "inverted": self.inverted,
            "ahead_of_rules": None if self.ahead is None else self.ahead.to_dict(),
            "explained": EXPLAINED if self.explained else "",
        }


@dataclass(frozen=True, eq=False)
class MembershipAudit:
    """What attacks and rules found of one target; `scores` are of single users and no document holds them.

    `attacks` is empty where nobody knows the target's members: then there are only scores.
    """

    attacks: dict[str, Found]
    scores: dict[str, FloatArray] = field(repr=False)
    users: IntArray = field(repr=False)
    truth: NDArray[np.bool_] | None = field(repr=False)
    notes: list[str] = field(default_factory=list)

    @property
    def explained(self) -> bool:
        """Whether members can be told, and no attack does it better than every rule."""
        seen = any(found.auc.low > 0.5 for found in self.attacks.values())
        return seen and not any(f.ahead is not None and f.ahead.low > 0 for f in self.attacks.values())

    def scores_of(self, name: str) -> Scores:
        """What one attack said, beside the truth: for a curve."""
        if self.truth is None:
            raise UsageError("Who is a member of the target is not known, so no curve can be drawn.")
        return Scores(self.users, self.truth, self.scores[name])

    def to_dict(self) -> dict[str, Any]:
        """For JSON and the report."""
        return {
            "n": len(self.users),
            "members": None if self.truth is None else int(self.truth.sum()),
            "explained": EXPLAINED if self.explained else "",
            "attacks": {name: found.to_dict() for name, found in self.attacks.items()},
            "notes": self.notes,
        }


def game_of(shadow: ServedPlatform, target: ServedPlatform) -> MembershipGame:
    """The game on two platforms, the shadow known through and through, the target from outside."""
    return MembershipGame((shadow.shadow,), target.watched, target.member)


def run_membership_attacks(
    game: MembershipGame,
    attacks: Mapping[str, MembershipAttack | ReferenceAttack],
    *,
    seed: int,
    inductive: bool = False,
    jointly: bool = True,
) -> MembershipAudit:
    """Run the rules and these attacks.

    The intervals of all AUCs hold together, 95 times of 100 (Sidak): of ten attacks, each with an interval of its own,
    one in four tables would raise an alarm where nothing leaks. Not `jointly`, each stands alone, as in the papers.

    Transductive attacks look at the lists of the users they are asked about (never at who is a member); if `inductive`,
    they look at a random half of the target's users and are asked about the others.
    """
    users = np.arange(len(game.target.lists))
    reference, asked = users, users
    if inductive:
        order = generator(seed, "membership", "reference").permutation(users)
        reference, asked = np.sort(order[: len(users) // 2]), np.sort(order[len(users) // 2 :])
    seen, target = _take(game.target, reference), _take(game.target, asked)
    rules = Rules().fit(game.shadows, reference=seen, rng=generator(seed, "membership", "rules"))
    scores = rules.each(target)
    shadow_scores = _joined([rules.each(s.watched) for s in game.shadows])
    thresholds = {}
    for name, one in attacks.items():
        if name in scores:
            raise UsageError(f"An attack is called '{name}', as a rule is. Give it another name.")
        if isinstance(one, ReferenceAttack):
            scores[name], thresholds[name] = (
                _finite(name, _by_references(name, one, game)[asked], len(asked)),
                one.threshold,
            )
            continue
        fitted = one.fit(game.shadows, reference=seen, rng=generator(seed, "membership", name))
        scores[name] = _finite(name, fitted.score(target), len(asked))
        if getattr(fitted, "threshold", None) is not None:
            thresholds[name] = float(fitted.threshold)  # type: ignore[attr-defined]
        else:
            shadow_scores[name] = np.concatenate([fitted.score(s.watched) for s in game.shadows])
    member = np.concatenate([s.member for s in game.shadows])
    thresholds |= {name: best_threshold(member, score) for name, score in shadow_scores.items()}
    truth = None if game.truth is None else game.truth[asked]
    level = LEVEL ** (1 / len(scores)) if jointly else LEVEL
    found = {} if truth is None else _judge(truth, scores, thresholds, list(rules.direction_), level)
    return MembershipAudit(found, scores, asked, truth, game.notes)


def _by_references(name: str, one: ReferenceAttack, game: MembershipGame) -> FloatArray:
    if game.evidence is None:
        raise UsageError(
            f"'{name}' compares the target with reference models, and none were trained. They need a target that is "
            "trained here: --data and --references, or References(...) in World."
        )
    return one.score(game.evidence)


def _judge(
    truth: NDArray[np.bool_],
    scores: Mapping[str, FloatArray],
    thresholds: Mapping[str, float],
    rules: Sequence[str],
    level: float,
) -> dict[str, Found]:
    found = {}
    for name, score in scores.items():
        ahead = None
        if name not in rules:
            gaps = (auc_difference(truth, score, scores[rule], level=level) for rule in rules)
            ahead = min(gaps, key=lambda gap: gap.low)
        found[name] = Found(
            auc=auc(truth, score, level=level),
            tpr_at_fpr={fpr: tpr_at_fpr(truth, score, fpr) for fpr in FALSE_POSITIVE_RATES},
            balanced_accuracy=balanced_accuracy(truth, score, thresholds[name]),
            threshold=thresholds[name],
            ahead=ahead,
        )
    return found


def _take(watched: Watched, users: IntArray) -> Watched:
    return replace(watched, histories=[watched.histories[u] for u in users], lists=watched.lists[users])


def _joined(parts: Sequence[Mapping[str, FloatArray]]) -> dict[str, FloatArray]:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _finite(name: str, score: FloatArray, n: int) -> FloatArray:
    if score.shape != (n,) or not np.isfinite(score).all():
        raise DataError(
            f"Attack '{name}' gave scores of shape {score.shape} for {n} users, {int((~np.isfinite(score)).sum())} of "
            "them not finite. It must give one number for each."
        )
    return score


def _check(watched: Watched, name: str) -> None:
    """Say what is wrong with what is seen of these users."""
    n = len(watched.histories)
    if watched.lists.ndim != 2 or len(watched.lists) != n or watched.lists.shape[1] < 1:
        raise DataError(f"The {name} has {n} histories and lists of shape {watched.lists.shape}. Each user needs both.")
    empty = [u for u, history in enumerate(watched.histories) if len(history) == 0]
    if empty:
        raise DataError(
            f"{len(empty)} of the {n} histories of the {name} are empty, the first that of user {empty[0]}. "
            "Leave these users out."
        )
    bare = np.flatnonzero((watched.lists < 0).all(1))
    if len(bare):
        raise DataError(
            f"{len(bare)} of the {n} lists of the {name} are empty, the first that of user {bare[0]}. "
            "Leave these users out."
        )
    if watched.item_vectors is not None and watched.lists.shape[1] > len(watched.item_vectors):
        raise DataError(
            f"Lists of the {name} have {watched.lists.shape[1]} places, but the catalog has "
            f"{len(watched.item_vectors)} items. Use shorter lists."
        )


def _check_members(member: NDArray[np.bool_], watched: Watched, name: str) -> None:
    if member.dtype != np.bool_ or member.shape != (len(watched.histories),):
        raise DataError(
            f"Members of the {name} were given as {member.dtype} of shape {member.shape}. One true or false is needed "
            f"for each of its {len(watched.histories)} users."
        )
    if member.all() or not member.any():
        raise DataError(
            f"{'All' if member.any() else 'None'} of the {len(member)} users of the {name} are members. Both are "
            "needed, to tell them apart."
        )
