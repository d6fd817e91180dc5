"""The audit of one attribute with classes, and the rule that turns an advantage into a verdict."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from recveil.audits.attribute.folds import FoldTrial
from recveil.core.result_parts import AttackResult, ClassTarget, Headline, Verdict
from recveil.core.types import Estimate, FloatArray, IntArray

__all__ = ["MARGIN", "METRICS", "TargetAudit", "judge_advantage", "judge_many_classes"]

METRICS = ("balanced_accuracy", "advantage", "accuracy", "macro_f1", "auc")

MARGIN = 0.05
"""An advantage under this is called no leak."""

MAX_USEFUL_REPEATS = 10
"""With more repeats the same users tell nothing new."""

MAX_CLASSES_FOR_ADVANTAGE = 10
"""With more classes the AUC is judged beside the advantage."""


def judge_advantage(advantage: Estimate, degenerate: bool, *, margin: float, resolution: float) -> Verdict:
    """Return the verdict on a headline advantage.

    Leak: the interval excludes chance and the estimate reaches the margin. None: the whole interval lies under the
    margin, the attacker made predictions that vary, and there were users enough to resolve twice the margin.

    Args:
        advantage: the headline advantage.
        degenerate: whether the attacker predicted one class for everybody.
        margin: the advantage under which a leak is not called one.
        resolution: the advantage that is detected with 95 % power once an attacker has it.
    """
    if advantage.low > 0 and advantage.value >= margin:
        return Verdict.LEAK
    resolved = advantage.high < margin and not degenerate and resolution < 2 * margin
    return Verdict.NONE if resolved else Verdict.INCONCLUSIVE


def judge_many_classes(verdict: Verdict, auc: Estimate, *, margin: float) -> Verdict:
    """Return the verdict on an attribute of more than MAX_CLASSES_FOR_ADVANTAGE classes.

    There an attacker who puts the right class among the first ten of fifty hardly ever names it, and the advantage
    stays near 0. So the mean one-vs-rest AUC is judged as well. Leak: its interval lies above 0.5 by more than half the
    margin. None: only if the whole interval also lies below 0.5 plus the margin.

    Args:
        verdict: the verdict on the advantage.
        auc: mean one-vs-rest AUC of the headline.
        margin: the advantage under which a leak is not called one.
    """
    if auc.low > 0.5 + margin / 2:
        return Verdict.LEAK
    return Verdict.INCONCLUSIVE if verdict is Verdict.NONE and not auc.high < 0.5 + margin else verdict


@dataclass(frozen=True, eq=False)
class TargetAudit:
    """The audit of one attribute with classes.

    Attributes:
        target: name of the attribute.
        labels: names of the classes.
        counts: users of each class.
        attacks: what each attack reached.
        headline: what the attack that was chosen on the inner folds reached.
        fold_shares: share of the folds in which each attack was chosen.
        p_value: how often chance does as well as the headline.
        confusion: share of each class (row) that was taken for each class (column).
        margin: the advantage under which a leak is not called one.
        resolution: the advantage that is detected with 95 % power once an attacker has it.
        detectable: the best possible advantage of a leak that attackers, who have to learn it, detect with 95 % power.
        n_undisclosed: users who did not disclose the attribute.
        notes: what was left out.
        users: rows of the audited users; no document holds them.
        trials: predictions for single users; no document holds them.
        fold_advantages: signed advantage of the headline on each fold, to pool several audits.
        repeats_used: repeats of cross-validation behind the numbers.
        best_resolution: the resolution that these users allow with MAX_USEFUL_REPEATS repeats.
    """

    target: str
    labels: tuple[str, ...]
    counts: tuple[int, ...]
    attacks: dict[str, AttackResult]
    headline: AttackResult
    fold_shares: dict[str, float]
    p_value: float
    confusion: FloatArray
    margin: float
    resolution: float
    detectable: float
    n_undisclosed: int = 0
    notes: list[str] = field(default_factory=list)
    users: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.int64), repr=False)
    trials: dict[str, list[FoldTrial]] = field(default_factory=dict, repr=False)
    fold_advantages: FloatArray = field(default_factory=lambda: np.empty(0), repr=False)
    repeats_used: int = 0
    best_resolution: float = math.inf

    @property
    def n(self) -> int:
        """Users whose class is known."""
        return sum(self.counts)

    @property
    def chance(self) -> float:
        """Balanced accuracy of guessing without looking."""
        return 1 / len(self.labels)

    @property
    def headline_attack(self) -> str:
        """The attack that was chosen most often."""
        return max(self.fold_shares, key=lambda name: self.fold_shares[name])

    @property
    def verdict(self) -> Verdict:
        """The verdict on the headline."""
        advantage, degenerate = self.headline.advantage, self.headline.degenerate
        verdict = judge_advantage(advantage, degenerate, margin=self.margin, resolution=self.resolution)
        if not self.has_many_classes:
            return verdict
        return judge_many_classes(verdict, self.headline.auc, margin=self.margin)

    @property
    def has_many_classes(self) -> bool:
        """Whether the AUC is judged beside the advantage."""
        return len(self.labels) > MAX_CLASSES_FOR_ADVANTAGE

    @property
    def sentence(self) -> str:
        """The verdict in words."""
        advantage, accuracy, name = self.headline.advantage, self.headline.balanced_accuracy, self.target
        numbers = (
            f"balanced accuracy {accuracy.value:.1%} (chance {self.chance:.1%}), "
            f"advantage {advantage.value:.3f} [{advantage.low:.3f}, {advantage.high:.3f}]"
        )
        if self.has_many_classes:
            auc = self.headline.auc
            numbers += f", mean AUC {auc.value:.3f} [{auc.low:.3f}, {auc.high:.3f}]"
        if self.verdict is Verdict.LEAK:
            wrong = (
                " An attacker that is wrong more often than chance reveals as much." if self.headline.inverted else ""
            )
            return f"An attacker can infer {name}: {numbers}.{wrong}"
        if self.verdict is Verdict.NONE:
            return f"No leak of {name} found: {numbers}, under the margin of {self.margin:g}."
        if self.headline.degenerate:
            return f"The audit of {name} is inconclusive: the attackers predicted one class for all users, {numbers}."
        size = f"an advantage of {self.detectable:.2f} or more" if self.detectable < 1 else "no leak of any size"
        power = f"With {self.n:,} users it detects {size} with 95 % power"
        if not self.best_resolution < 2 * self.margin:
            return f"The audit of {name} is inconclusive: {numbers}. {power}; more users are needed for less."
        advice = " More repeats may resolve it." if self.repeats_used < MAX_USEFUL_REPEATS else ""
        repeats = f"{self.repeats_used} repeat{'s' * (self.repeats_used != 1)} of cross-validation"
        return f"The audit of {name} is inconclusive after {repeats}: {numbers}. {power}.{advice}"

    def to_result(self) -> ClassTarget:
        """Return the audit as a part of a result document."""
        headline = Headline(
            **dict(self.headline), attack=self.headline_attack, p_value=self.p_value, fold_shares=self.fold_shares
        )
        return ClassTarget(
            verdict=self.verdict,
            sentence=self.sentence,
            chance=self.chance,
            majority=max(self.counts) / self.n,
            n=self.n,
            labels=list(self.labels),
            counts=dict(zip(self.labels, self.counts, strict=True)),
            margin=self.margin,
            resolution=self.resolution,
            detectable=self.detectable,
            headline=headline,
            attacks=self.attacks,
            confusion=[[round(float(share), 4) for share in row] for row in self.confusion],
            notes=self.notes,
            n_undisclosed=self.n_undisclosed,
            repeats_used=self.repeats_used,
        )
