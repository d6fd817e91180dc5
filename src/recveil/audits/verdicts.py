"""What an audit found of one attribute, and what it means: numbers, verdict, one plain sentence."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from recveil.audits.attribute.folds import Trial
from recveil.core.types import Estimate, FloatArray, IntArray

__all__ = ["MARGIN", "METRICS", "AttackResult", "TargetAudit", "judged"]

METRICS = ("balanced_accuracy", "advantage", "accuracy", "macro_f1", "auc")

MARGIN = 0.05
"""An advantage under this is called no leak."""


@dataclass(frozen=True)
class AttackResult:
    """What one attacker reached on the users under attack."""

    balanced_accuracy: Estimate
    advantage: Estimate
    accuracy: Estimate
    macro_f1: Estimate
    auc: Estimate
    recall: dict[str, Estimate]
    inverted: bool
    degenerate: bool

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        plain = {name: getattr(self, name).to_dict() for name in METRICS}
        recall = {k: e.to_dict() for k, e in self.recall.items()}
        return {**plain, "recall": recall, "inverted": self.inverted, "degenerate": self.degenerate}


def judged(a: Estimate, degenerate: bool, *, margin: float, resolution: float) -> str:
    """`leak`, `none` or `inconclusive`, from the interval of the headline advantage against the margin.

    Leak: chance is excluded and the estimate reaches the margin. None: all of the interval lies under the margin, the
    attacker did make guesses, and there were users enough to see an advantage of twice the margin.
    """
    if a.low > 0 and a.value >= margin:
        return "leak"
    return "none" if a.high < margin and not degenerate and resolution < 2 * margin else "inconclusive"


@dataclass(frozen=True, eq=False)
class TargetAudit:
    """The audit of one attribute. `chosen` says in what share of the folds each attacker spoke for the panel.

    An advantage of `resolution` is surely seen once an attacker has it; a leak whose best possible advantage is
    `detectable` is surely seen by attackers who first have to learn it.
    `played` and `users` (rows of the table) are what was guessed of single users; no document holds them.
    `folds` is the signed advantage of the headline on each fold, for whoever pools several audits.
    """

    target: str
    labels: tuple[str, ...]
    counts: tuple[int, ...]
    attacks: dict[str, AttackResult]
    headline: AttackResult
    chosen: dict[str, float]
    p_value: float
    confusion: FloatArray
    margin: float
    resolution: float
    detectable: float
    notes: list[str] = field(default_factory=list)
    users: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.int64), repr=False)
    played: dict[str, list[Trial]] = field(default_factory=dict, repr=False)
    folds: FloatArray = field(default_factory=lambda: np.empty(0), repr=False)

    @property
    def n(self) -> int:
        """Users whose class is known."""
        return sum(self.counts)

    @property
    def chance(self) -> float:
        """The balanced accuracy of guessing without looking."""
        return 1 / len(self.labels)

    @property
    def headline_attack(self) -> str:
        """The attacker that spoke for the panel most often."""
        return max(self.chosen, key=lambda name: self.chosen[name])

    @property
    def verdict(self) -> str:
        """`leak`, `none` or `inconclusive`."""
        return judged(self.headline.advantage, self.headline.degenerate, margin=self.margin, resolution=self.resolution)

    def to_dict(self) -> dict[str, Any]:
        """For JSON and the report."""
        return {
            "verdict": self.verdict,
            "sentence": self.sentence(),
            "chance": self.chance,
            "majority": max(self.counts) / self.n,
            "n": self.n,
            "labels": list(self.labels),
            "counts": dict(zip(self.labels, self.counts, strict=True)),
            "margin": self.margin,
            "resolution": self.resolution,
            "detectable": self.detectable,
            "headline": {
                "attack": self.headline_attack,
                **self.headline.to_dict(),
                "p_value": self.p_value,
                "chosen": self.chosen,
            },
            "attacks": {name: result.to_dict() for name, result in self.attacks.items()},
            "confusion": [[round(float(v), 4) for v in row] for row in self.confusion],
            "notes": self.notes,
        }

    def sentence(self) -> str:
        """The verdict in words."""
        a, b, name = self.headline.advantage, self.headline.balanced_accuracy, self.target
        reached = (
            f"balanced accuracy {b.value:.1%} (chance {self.chance:.1%}), "
            f"advantage {a.value:.3f} [{a.low:.3f}, {a.high:.3f}]"
        )
        if self.verdict == "leak":
            wrong = " Being wrong more often than chance tells just as much." if self.headline.inverted else ""
            return f"An outsider can guess {name}: {reached}.{wrong}"
        if self.verdict == "none":
            return f"No leak of {name} found: {reached}, under the margin of {self.margin:g}."
        if self.headline.degenerate:
            return f"Nothing can be said of {name}: the attackers gave every user the same guess, {reached}."
        seen = f"an advantage of {self.detectable:.2f} or more" if self.detectable < 1 else "not even a full leak"
        return f"Too few users to tell whether {name} leaks: {reached}. With {self.n:,} users {seen} is surely seen."
