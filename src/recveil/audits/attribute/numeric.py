"""The audit of a number: can an outsider guess it better than by its mean?

As with classes, an attacker that is always wrong is turned round: the line that carries guesses to truths is learned
on the inner folds of each fold and applied to the users under attack, who are used once. The advantage is the
correlation of guess and truth, with the sign that the inner folds gave it: 0 at chance, 1 at certainty. R2 is that of
the guesses on the line, against the mean of the users the attacker knows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import stats

from recveil.attacks.attribute.regressors import REGRESSIONS, guess_numbers
from recveil.audits.attribute.folds import Folds, deal
from recveil.audits.verdicts import MARGIN, judged
from recveil.core.errors import DataError
from recveil.core.random import generator
from recveil.core.types import Attribute, Estimate, FloatArray
from recveil.metrics.intervals import LEVEL, corrected_p, corrected_t, estimate_advantage
from recveil.metrics.power import POWER, seen_surely

__all__ = ["NumberAudit", "NumberResult", "audit_number"]

FEWEST, STRATA, BLIND = 50, 10, "mean"


@dataclass(frozen=True)
class NumberResult:
    """What one attacker reached on the users under attack."""

    advantage: Estimate
    r2: Estimate
    correlation: Estimate
    inverted: bool
    degenerate: bool

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        numbers = {name: getattr(self, name).to_dict() for name in ("advantage", "r2", "correlation")}
        return {**numbers, "inverted": self.inverted, "degenerate": self.degenerate}


@dataclass(frozen=True, eq=False)
class NumberAudit:
    """The audit of one number; the fields mean what they mean for classes (`verdict.TargetAudit`)."""

    target: str
    n: int
    mean: float
    spread: float
    attacks: dict[str, NumberResult]
    headline: NumberResult
    chosen: dict[str, float]
    p_value: float
    margin: float
    resolution: float
    notes: list[str] = field(default_factory=list)
    folds: FloatArray = field(default_factory=lambda: np.empty(0), repr=False)

    @property
    def verdict(self) -> str:
        """`leak`, `none` or `inconclusive`."""
        return judged(self.headline.advantage, self.headline.degenerate, margin=self.margin, resolution=self.resolution)

    @property
    def headline_attack(self) -> str:
        """The attacker that spoke for the panel most often."""
        return max(self.chosen, key=lambda name: self.chosen[name])

    def to_dict(self) -> dict[str, Any]:
        """For JSON and the report."""
        head = {"attack": self.headline_attack, **self.headline.to_dict(), "p_value": self.p_value}
        return {
            "kind": "number",
            "verdict": self.verdict,
            "sentence": self.sentence(),
            "chance": 0.0,
            "n": self.n,
            "mean": self.mean,
            "spread": self.spread,
            "margin": self.margin,
            "resolution": self.resolution,
            "detectable": self.resolution,
            "headline": {**head, "chosen": self.chosen},
            "attacks": {name: result.to_dict() for name, result in self.attacks.items()},
            "notes": self.notes,
        }

    def sentence(self) -> str:
        """The verdict in words."""
        a, r2, name = self.headline.advantage, self.headline.r2, self.target
        reached = f"R2 {r2.value:.3f} against the mean, correlation {a.value:.3f} [{a.low:.3f}, {a.high:.3f}]"
        if self.verdict == "leak":
            return f"An outsider can guess {name}: {reached}."
        if self.verdict == "none":
            return f"No leak of {name} found: {reached}, under the margin of {self.margin:g}."
        return (
            f"Too few users to tell whether {name} leaks: {reached}. "
            f"With {self.n:,} users a correlation of {self.resolution:.2f} or more is surely seen."
        )


@dataclass(frozen=True, eq=False)
class Guesses:
    """One attacker on one fold: guesses and truths on inner folds (to choose by) and under attack (to report)."""

    attack: str
    inner: tuple[FloatArray, FloatArray]
    test: tuple[FloatArray, FloatArray]
    mean: float

    @property
    def line(self) -> tuple[float, float]:
        """Slope and intercept that carry inner guesses to inner truths; flat where the guesses do not vary."""
        guess, truth = self.inner
        if guess.std() <= 1e-12 * max(1.0, float(np.abs(guess).max())):
            return 0.0, float(truth.mean())
        slope = float(np.cov(guess, truth, bias=True)[0, 1] / guess.var())
        return slope, float(truth.mean() - slope * guess.mean())


def audit_number(
    x: FloatArray, attribute: Attribute, *, rules: Folds | None = None, margin: float = MARGIN, seed: int = 0
) -> NumberAudit:
    """Let regressions guess the number from the rows of `x`, and judge them."""
    rules = rules or Folds()
    x, values, notes = _usable(x, attribute)
    n = len(values)
    played = _play(x, values, rules, seed)
    looking = [guesses for name, guesses in played.items() if name != BLIND]
    chosen = [max(fold, key=lambda g: _correlation(*g.inner) ** 2) for fold in zip(*looking, strict=True)]
    shares = {name: c / len(chosen) for name, c in sorted(Counter(g.attack for g in chosen).items())}
    turned = np.array([_turned(g) for g in chosen])
    error = 1 / np.sqrt(n)
    seen = seen_surely(rules.folds, rules.seeds, rules.test_share)
    return NumberAudit(
        target=attribute.name,
        n=n,
        mean=float(values.mean()),
        spread=float(values.std()),
        attacks={name: _result(guesses, rules, n) for name, guesses in played.items()},
        headline=_result(chosen, rules, n),
        chosen=shares,
        p_value=corrected_p(turned, rules.test_share, 0.0, two_sided=False),
        margin=margin,
        resolution=float(max(seen * error, margin + stats.norm.ppf(POWER) * error)),
        notes=notes,
        folds=turned,
    )


def _usable(x: FloatArray, attribute: Attribute) -> tuple[FloatArray, FloatArray, list[str]]:
    if attribute.values is None:
        raise DataError(f"Attribute '{attribute.name}' is a class, not a number. Audit it as classes.")
    known = np.isfinite(attribute.values)
    values = np.asarray(attribute.values[known], dtype=np.float64)
    if len(values) < FEWEST or values.std() == 0:
        raise DataError(
            f"Attribute '{attribute.name}' has {len(values)} known values, {len(np.unique(values))} of them different. "
            f"To audit a number takes at least {FEWEST} users who differ."
        )
    unknown = int((~known).sum())
    notes = [f"{attribute.name}: {unknown:,} users have no known value and took no part."] if unknown else []
    return np.asarray(x[known], dtype=np.float64), values, notes


def _play(x: FloatArray, values: FloatArray, rules: Folds, seed: int) -> dict[str, list[Guesses]]:
    """Let each attacker play every fold of every seed; users are dealt so that small and large values are in each."""
    places = np.argsort(np.argsort(values, kind="stable"), kind="stable")
    strata = places * min(STRATA, len(values) // (2 * rules.folds)) // len(values)
    deals = [d for s in range(rules.seeds) for d in deal(strata, rules, generator(seed, "folds", s))]
    tasks = [task for outer, inners in deals for task in (outer, *inners)]
    played = {}
    for name in REGRESSIONS:
        guesses = iter(guess_numbers(name, x, values, tasks, rng=generator(seed, "attack", name)))
        played[name] = [
            Guesses(
                name,
                test=(next(guesses), values[outer.test]),
                inner=_joined([(next(guesses), values[task.test]) for task in inners]),
                mean=float(values[outer.train].mean()),
            )
            for outer, inners in deals
        ]
    return played


def _joined(parts: list[tuple[FloatArray, FloatArray]]) -> tuple[FloatArray, FloatArray]:
    return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])


def _correlation(guess: FloatArray, truth: FloatArray) -> float:
    """0 where either does not vary."""
    flat = any(v.std() <= 1e-12 * max(1.0, float(np.abs(v).max())) for v in (guess, truth))
    return 0.0 if flat else float(np.corrcoef(guess, truth)[0, 1])


def _turned(g: Guesses) -> float:
    return float(np.sign(g.line[0])) * _correlation(*g.test)


def _r2(g: Guesses) -> float:
    """1 - the squared errors of the guesses on their line over those of the mean of the users that are known."""
    (guess, truth), (slope, intercept) = g.test, g.line
    return 1 - float(np.square(truth - slope * guess - intercept).sum() / np.square(truth - g.mean).sum())


def _result(guesses: Sequence[Guesses], rules: Folds, n: int) -> NumberResult:
    def over_folds(values: list[float]) -> Estimate:
        return corrected_t(np.array(values), rules.test_share, n)

    raw = np.array([_correlation(*g.test) for g in guesses])
    against = corrected_p(raw, rules.test_share, 0.0, two_sided=True)
    return NumberResult(
        advantage=estimate_advantage(np.array([_turned(g) for g in guesses]), rules.test_share, n),
        r2=over_folds([_r2(g) for g in guesses]),
        correlation=over_folds(list(raw)),
        inverted=bool(raw.mean() < 0 and against < 1 - LEVEL),
        degenerate=bool(np.mean([g.test[0].std() < 1e-9 * max(g.test[1].std(), 1e-300) for g in guesses]) > 0.5),
    )
