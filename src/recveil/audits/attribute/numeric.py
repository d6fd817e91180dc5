"""The audit of a number: can an attacker predict it better than by its mean?

As with classes, an attacker that is always wrong is turned round: the line from predictions to truths is learned on the
inner folds of each fold and applied to the attacked users, who are used once. The advantage is the correlation of
prediction and truth with the sign that the inner folds gave it: 0 at chance, 1 at certainty. R2 is that of the
predictions on the line, against the mean of the users the attacker knows.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from scipy import stats

from recveil.attacks.attribute.regressors import REGRESSIONS, guess_numbers
from recveil.audits.attribute.folds import CrossValidation, add_repeats, draw_folds
from recveil.audits.attribute.user_order import find_copies, order_users
from recveil.audits.verdicts import MARGIN, MAX_USEFUL_REPEATS, judge_advantage
from recveil.core.errors import DataError
from recveil.core.random import make_generator
from recveil.core.result_parts import NumericAttackResult, NumericHeadline, NumericTarget, Verdict
from recveil.core.types import Attribute, Estimate, FloatArray, IntArray
from recveil.data.io.ids import Ids
from recveil.metrics.intervals import CONFIDENCE_LEVEL, compute_corrected_p, estimate_advantage, estimate_corrected_mean
from recveil.metrics.power import TARGET_POWER, compute_detection_threshold

__all__ = ["NumericAudit", "audit_numeric_attribute"]

MIN_USERS = 50
MAX_STRATA = 10
BLIND_ATTACK = "mean"
"""The regression that never looks at the vectors."""


@dataclass(frozen=True, eq=False)
class NumericAudit:
    """The audit of one number; the fields mean what they mean for classes (`audits.verdicts.TargetAudit`)."""

    target: str
    n: int
    mean: float
    spread: float
    attacks: dict[str, NumericAttackResult]
    headline: NumericAttackResult
    fold_shares: dict[str, float]
    p_value: float
    margin: float
    resolution: float
    n_undisclosed: int = 0
    notes: list[str] = field(default_factory=list)
    fold_advantages: FloatArray = field(default_factory=lambda: np.empty(0), repr=False)
    repeats_used: int = 0
    best_resolution: float = math.inf

    @property
    def verdict(self) -> Verdict:
        """The verdict on the headline."""
        advantage, degenerate = self.headline.advantage, self.headline.degenerate
        return judge_advantage(advantage, degenerate, margin=self.margin, resolution=self.resolution)

    @property
    def headline_attack(self) -> str:
        """The attack that was chosen most often."""
        return max(self.fold_shares, key=lambda name: self.fold_shares[name])

    @property
    def sentence(self) -> str:
        """The verdict in words."""
        advantage, r2, name = self.headline.advantage, self.headline.r2, self.target
        numbers = (
            f"R2 {r2.value:.3f} against the mean, "
            f"correlation {advantage.value:.3f} [{advantage.low:.3f}, {advantage.high:.3f}]"
        )
        if self.verdict is Verdict.LEAK:
            return f"An attacker can infer {name}: {numbers}."
        if self.verdict is Verdict.NONE:
            return f"No leak of {name} found: {numbers}, under the margin of {self.margin:g}."
        power = f"With {self.n:,} users it detects a correlation of {self.resolution:.2f} or more with 95 % power"
        if not self.best_resolution < 2 * self.margin:
            return f"The audit of {name} is inconclusive: {numbers}. {power}; more users are needed for less."
        advice = " More repeats may resolve it." if self.repeats_used < MAX_USEFUL_REPEATS else ""
        repeats = f"{self.repeats_used} repeat{'s' * (self.repeats_used != 1)} of cross-validation"
        return f"The audit of {name} is inconclusive after {repeats}: {numbers}. {power}.{advice}"

    def to_result(self) -> NumericTarget:
        """Return the audit as a part of a result document."""
        headline = NumericHeadline(
            **dict(self.headline), attack=self.headline_attack, p_value=self.p_value, fold_shares=self.fold_shares
        )
        return NumericTarget(
            verdict=self.verdict,
            sentence=self.sentence,
            n=self.n,
            mean=self.mean,
            spread=self.spread,
            margin=self.margin,
            resolution=self.resolution,
            detectable=self.resolution,
            headline=headline,
            attacks=self.attacks,
            notes=self.notes,
            n_undisclosed=self.n_undisclosed,
            repeats_used=self.repeats_used,
        )


@dataclass(frozen=True, eq=False)
class FoldPredictions:
    """One regression on one fold: predictions and truths on the inner folds and on the attacked users."""

    attack: str
    inner: tuple[FloatArray, FloatArray]
    test: tuple[FloatArray, FloatArray]
    mean: float

    @property
    def line(self) -> tuple[float, float]:
        """Slope and intercept from inner predictions to inner truths; flat where the predictions do not vary."""
        guess, truth = self.inner
        if guess.std() <= 1e-12 * max(1.0, float(np.abs(guess).max())):
            return 0.0, float(truth.mean())
        slope = float(np.cov(guess, truth, bias=True)[0, 1] / guess.var())
        return slope, float(truth.mean() - slope * guess.mean())


def audit_numeric_attribute(
    x: FloatArray,
    attribute: Attribute,
    *,
    rules: CrossValidation | None = None,
    margin: float = MARGIN,
    seed: int = 0,
    ids: Ids | None = None,
) -> NumericAudit:
    """Predict the number by regressions from the rows of `x`, and judge what they reach.

    Args:
        x: user vectors, one row for each user.
        attribute: the attribute, with values.
        rules: the folds.
        margin: the correlation under which a leak is not called one.
        seed: the same seed gives the same audit, in any order of the rows.
        ids: id of each row, from which folds are derived; the rows themselves serve where there are none.
    """
    rules = rules or CrossValidation()
    n_rows = len(x)
    rows = order_users(x, attribute.codes if attribute.values is None else attribute.values, seed, ids)
    x, values, notes = _select_known(x[rows], attribute.take(rows))
    n = len(values)
    groups, copies = find_copies(x, rules.folds)
    notes = [*notes, *(f"{attribute.name}: {note}" for note in copies)]
    audit = _regress_until_resolved(x, values, groups, rules=rules, margin=margin, seed=seed)
    return replace(audit, target=attribute.name, n_undisclosed=n_rows - n, notes=notes)


def _regress_until_resolved(
    x: FloatArray, values: FloatArray, groups: IntArray, *, rules: CrossValidation, margin: float, seed: int
) -> NumericAudit:
    """Run the regressions, and add repeats while the audit is inconclusive and repeats can resolve it."""
    start, first = time.monotonic(), 0
    predictions: dict[str, list[FoldPredictions]] = {name: [] for name in REGRESSIONS}
    while True:
        for name, each in _run_regressions(x, values, rules, seed, groups, first).items():
            predictions[name] += each
        audit, first = _summarize_audit(predictions, values, rules, margin), rules.repeats
        most = replace(rules, repeats=max(rules.repeats, rules.max_repeats))
        is_open = audit.verdict is Verdict.INCONCLUSIVE and not audit.headline.degenerate
        if not is_open or _compute_resolution(len(values), most, margin) >= 2 * margin:
            return audit
        more = add_repeats(rules, start)
        if more is None:
            return audit
        rules = more


def _summarize_audit(
    predictions: dict[str, list[FoldPredictions]], values: FloatArray, rules: CrossValidation, margin: float
) -> NumericAudit:
    """Summarize what the regressions reached; name, notes and undisclosed users are not set."""
    n = len(values)
    candidates = [each for name, each in predictions.items() if name != BLIND_ATTACK]
    headline = [max(fold, key=lambda p: _correlate(*p.inner) ** 2) for fold in zip(*candidates, strict=True)]
    signed = np.array([_correlate_signed(p) for p in headline])
    best = replace(rules, repeats=max(rules.repeats, MAX_USEFUL_REPEATS))
    return NumericAudit(
        target="",
        n=n,
        mean=float(values.mean()),
        spread=float(values.std()),
        attacks={name: _summarize_predictions(each, rules, n) for name, each in predictions.items()},
        headline=_summarize_predictions(headline, rules, n),
        fold_shares={name: c / len(headline) for name, c in sorted(Counter(p.attack for p in headline).items())},
        p_value=compute_corrected_p(signed, rules.test_share, 0.0, two_sided=False),
        margin=margin,
        resolution=_compute_resolution(n, rules, margin),
        fold_advantages=signed,
        repeats_used=rules.repeats,
        best_resolution=_compute_resolution(n, best, margin),
    )


def _compute_resolution(n: int, rules: CrossValidation, margin: float) -> float:
    """Compute the smallest correlation that, once an attacker has it, is called a leak with 95 % power."""
    error = 1 / math.sqrt(n)
    errors_needed = compute_detection_threshold(rules.folds, rules.repeats, rules.test_share)
    return float(max(errors_needed * error, margin + stats.norm.ppf(TARGET_POWER) * error))


def _select_known(x: FloatArray, attribute: Attribute) -> tuple[FloatArray, FloatArray, list[str]]:
    if attribute.values is None:
        raise DataError(f"Attribute '{attribute.name}' is a class, not a number. Audit it as classes.")
    known = np.isfinite(attribute.values)
    values = np.asarray(attribute.values[known], dtype=np.float64)
    if len(values) < MIN_USERS or values.std() == 0:
        raise DataError(
            f"Attribute '{attribute.name}' has {len(values)} known values, {len(np.unique(values))} of them different. "
            f"To audit a number takes at least {MIN_USERS} users who differ."
        )
    unknown = int((~known).sum())
    notes = [f"{attribute.name}: {unknown:,} users are undisclosed and took no part."] if unknown else []
    return np.asarray(x[known], dtype=np.float64), values, notes


def _run_regressions(
    x: FloatArray, values: FloatArray, rules: CrossValidation, seed: int, groups: IntArray, first: int
) -> dict[str, list[FoldPredictions]]:
    """Run each regression on every fold of the repeats from `first` on; folds are stratified by the value."""
    places = np.argsort(np.argsort(values, kind="stable"), kind="stable")
    strata = places * min(MAX_STRATA, len(values) // (2 * rules.folds)) // len(values)
    splits = [
        s
        for repeat in range(first, rules.repeats)
        for s in draw_folds(strata, rules, make_generator(seed, "folds", repeat), groups)
    ]
    tasks = [task for outer, inners in splits for task in (outer, *inners)]
    predictions = {}
    for name in REGRESSIONS:
        rng = make_generator(seed, "attack", name, *([first] if first else []))
        guesses = iter(guess_numbers(name, x, values, tasks, rng=rng))
        predictions[name] = [
            FoldPredictions(
                name,
                test=(next(guesses), values[outer.test]),
                inner=_concatenate_pairs([(next(guesses), values[task.test]) for task in inners]),
                mean=float(values[outer.train].mean()),
            )
            for outer, inners in splits
        ]
    return predictions


def _concatenate_pairs(parts: list[tuple[FloatArray, FloatArray]]) -> tuple[FloatArray, FloatArray]:
    return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])


def _correlate(guess: FloatArray, truth: FloatArray) -> float:
    """Return the correlation; 0 where either does not vary."""
    flat = any(v.std() <= 1e-12 * max(1.0, float(np.abs(v).max())) for v in (guess, truth))
    return 0.0 if flat else float(np.corrcoef(guess, truth)[0, 1])


def _correlate_signed(g: FoldPredictions) -> float:
    return float(np.sign(g.line[0])) * _correlate(*g.test)


def _compute_r2(g: FoldPredictions) -> float:
    """Return 1 - squared errors of the predictions on their line over those of the mean of the known users."""
    (guess, truth), (slope, intercept) = g.test, g.line
    return 1 - float(np.square(truth - slope * guess - intercept).sum() / np.square(truth - g.mean).sum())


def _summarize_predictions(guesses: Sequence[FoldPredictions], rules: CrossValidation, n: int) -> NumericAttackResult:
    def over_folds(values: list[float], lowest: float = -math.inf) -> Estimate:
        return estimate_corrected_mean(np.array(values), rules.test_share, n, lowest=lowest, highest=1.0)

    raw = np.array([_correlate(*g.test) for g in guesses])
    against = compute_corrected_p(raw, rules.test_share, 0.0, two_sided=True)
    return NumericAttackResult(
        advantage=estimate_advantage(np.array([_correlate_signed(g) for g in guesses]), rules.test_share, n),
        r2=over_folds([_compute_r2(g) for g in guesses]),
        correlation=over_folds(list(raw), lowest=-1.0),
        inverted=bool(raw.mean() < 0 and against < 1 - CONFIDENCE_LEVEL),
        degenerate=bool(np.mean([g.test[0].std() < 1e-9 * max(g.test[1].std(), 1e-300) for g in guesses]) > 0.5),
    )
