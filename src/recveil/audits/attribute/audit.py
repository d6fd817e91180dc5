"""Attacks -> numbers that can be trusted -> a verdict for each attribute.

Everything that is chosen (which attacker speaks for the panel, what its guesses mean) is chosen on the inner folds of
each fold; the users under attack are used once, to score. Intervals are the corrected resampled t over folds.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import count

import numpy as np
from scipy import stats

from recveil.attacks.attribute.panels import NEVER_HEADLINE
from recveil.attacks.attribute.tasks import Attack
from recveil.audits.attribute.folds import Folds, Trial, play_folds
from recveil.audits.catalog import panel
from recveil.audits.verdicts import MARGIN, METRICS, AttackResult, TargetAudit
from recveil.core.errors import DataError, UsageError
from recveil.core.progress import track
from recveil.core.random import generator
from recveil.core.types import Attribute, Estimate, FloatArray, IntArray, Record
from recveil.data.io.user_tables import require_classes
from recveil.metrics import leakage
from recveil.metrics.intervals import LEVEL, corrected_p, corrected_t, estimate_advantage
from recveil.metrics.power import POWER, advantage_error, allow_for_learning, seen_surely

__all__ = ["audit", "records", "usable_users"]


def audit(
    x: FloatArray,
    attribute: Attribute,
    attacks: Mapping[str, Attack] | None = None,
    *,
    rules: Folds | None = None,
    margin: float = MARGIN,
    permutations: int = 0,
    seed: int = 0,
    seen_in: FloatArray | None = None,
) -> TargetAudit:
    """Let the attacks (the `fast` panel if none are given) guess the attribute from the rows of `x`, and judge them.

    The p-value is that of the corrected resampled t; with `permutations`, the labels are shuffled that often and all is
    run again: folds, fitting, choice of attacker, meaning of its guesses. It takes as many times longer.
    With `seen_in`, the attacker learns from `x` and meets the users under attack in that table.
    """
    rules, attacks = rules or Folds(), attacks or panel("fast")
    if rules.folds < 2 or rules.seeds < 1:
        raise UsageError(f"An audit needs at least 2 folds and 1 seed; got {rules.folds} and {rules.seeds}.")
    _check(x, attribute)
    users, labels, notes = usable_users(attribute, rules.folds, inner=rules.inner)
    codes = np.unique(attribute.codes[users], return_inverse=True)[1].astype(np.int64)
    met = None if seen_in is None else seen_in[users]
    played = play_folds(x[users], codes, len(labels), attacks, rules=rules, seed=seed, seen_in=met)
    counts = tuple(int(c) for c in np.bincount(codes))
    resolution = _resolution(counts, margin, rules)
    chosen = _headline(played)
    shares = {name: n / len(chosen) for name, n in sorted(Counter(t.attack for t in chosen).items())}
    return TargetAudit(
        target=attribute.name,
        labels=labels,
        counts=counts,
        attacks={name: _result(trials, labels, rules) for name, trials in played.items()},
        headline=_result(chosen, labels, rules),
        chosen=shares,
        p_value=_p_value(x[users], codes, attacks, chosen, rules=rules, permutations=permutations, seed=seed),
        confusion=leakage.rates(np.sum([_counts(t, len(labels)) for t in chosen], axis=0)),
        margin=margin,
        resolution=resolution,
        detectable=_detectable(resolution, counts, x.shape[1], rules),
        notes=notes,
        users=users,
        played=played,
        folds=leakage.advantage(_relabelled(chosen, len(labels)), len(labels)),
    )


def _check(x: FloatArray, attribute: Attribute) -> None:
    if x.ndim != 2 or len(x) != len(attribute.codes):
        raise DataError(
            f"The vectors have shape {x.shape} and '{attribute.name}' is given for {len(attribute.codes):,} users. "
            f"Give a table with one row for each of these users."
        )
    if not np.isfinite(x).all():
        raise DataError("The user vectors hold NaN or infinite values. Remove or repair those rows first.")
    if attribute.continuous:
        raise DataError(f"Attribute '{attribute.name}' is a number, not a class. Cut it into classes first.")


def usable_users(attribute: Attribute, folds: int, *, inner: int = 2) -> tuple[IntArray, tuple[str, ...], list[str]]:
    """The users who can take part, the labels of their classes, and what was left out.

    A class takes part if it has a user in every fold, and in every inner fold of what the other folds leave.
    """
    require_classes(attribute)
    counts, name = attribute.counts, attribute.name
    present = np.flatnonzero(counts)
    fewest = next(c for c in count(folds) if c - math.ceil(c / folds) >= inner)
    kept = [k for k in present if counts[k] >= fewest]
    notes = [
        f"{name}: class '{attribute.labels[k]}' was left out, its {counts[k]} users are too few for {folds} folds."
        for k in present
        if counts[k] < fewest
    ]
    if len(kept) < 2:
        mend = "Use fewer --folds, or merge classes." if folds > 2 else "Merge classes."
        raise DataError(f"Attribute '{name}' has fewer than two classes of at least {fewest} users. {mend}")
    unknown = int((~attribute.known).sum())
    if unknown:
        notes.append(f"{name}: {unknown:,} users have no known value and took no part.")
    return np.flatnonzero(np.isin(attribute.codes, kept)), tuple(attribute.labels[k] for k in kept), notes


def records(results: Sequence[TargetAudit], *, dataset: str, model: str, defense: str, seed: int) -> list[Record]:
    """One record for each target, attacker and metric."""
    rows = []
    for result in results:
        for name, attack in {**result.attacks, "headline": result.headline}.items():
            for metric in METRICS:
                estimate = getattr(attack, metric)
                rows.append(Record(dataset, model, defense, name, result.target, seed, metric, estimate))
    return rows


def _headline(played: Mapping[str, list[Trial]]) -> list[Trial]:
    """For each fold the attacker that speaks for the panel; those who look at nothing never do."""
    looking = [trials for name, trials in played.items() if name not in NEVER_HEADLINE]
    if not looking:
        raise UsageError(f"None of {', '.join(played)} looks at the users. Add an attacker that does.")
    return [_strongest(list(trials)) for trials in zip(*looking, strict=True)]


def _p_value(
    x: FloatArray,
    codes: IntArray,
    attacks: Mapping[str, Attack],
    chosen: list[Trial],
    *,
    rules: Folds,
    permutations: int,
    seed: int,
) -> float:
    """How often pure chance does as well as the headline did."""
    K = len(np.unique(codes))
    reached = _relabelled(chosen, K)
    if not permutations:
        return corrected_p(reached, rules.test_share, 1 / K, two_sided=False)
    rng, as_good = generator(seed, "permutations"), 0
    for _ in track(range(permutations), "permuting the labels", permutations):
        shuffled = rng.permutation(codes)
        played = play_folds(x, shuffled, K, attacks, rules=rules, seed=seed)
        # Rounding must not break a tie in favor of a leak.
        as_good += bool(_relabelled(_headline(played), K).mean() >= reached.mean() - 1e-12)
    return (1 + as_good) / (permutations + 1)


def _strongest(trials: list[Trial]) -> Trial:
    """The attacker of this fold whose inner guesses say most; on equal terms the first of the panel."""
    K = trials[0].test.score.shape[1]
    return max(trials, key=lambda t: leakage.guessing_power(_inner_counts(t, K)))


def _result(trials: list[Trial], labels: tuple[str, ...], rules: Folds) -> AttackResult:
    K = len(labels)
    n = sum(len(t.test.users) for t in trials) // rules.seeds
    folds = [_counts(t, K) for t in trials]

    def over_folds(values: list[float]) -> Estimate:
        return corrected_t(np.array(values), rules.test_share, n)

    raw = np.array([leakage.balanced_accuracy(c) for c in folds])
    signed = leakage.advantage(_relabelled(trials, K), K)
    recall = np.stack([leakage.recalls(c) for c in folds])
    return AttackResult(
        balanced_accuracy=over_folds(list(raw)),
        advantage=estimate_advantage(signed, rules.test_share, n),
        accuracy=over_folds([leakage.accuracy(c) for c in folds]),
        macro_f1=over_folds([leakage.macro_f1(c) for c in folds]),
        auc=over_folds([float(np.nanmean(leakage.auc(t.test.truth, t.test.score))) for t in trials]),
        recall={label: over_folds(list(recall[:, k])) for k, label in enumerate(labels)},
        inverted=bool(raw.mean() < 1 / K and corrected_p(raw, rules.test_share, 1 / K, two_sided=True) < 1 - LEVEL),
        degenerate=bool(np.mean([_constant(c) for c in folds]) > 0.5),
    )


def _counts(trial: Trial, n_classes: int) -> FloatArray:
    return leakage.confusion(trial.test.truth, trial.test.score.argmax(1), n_classes)


def _inner_counts(trial: Trial, n_classes: int) -> FloatArray:
    return leakage.confusion(trial.inner.truth, trial.inner.score.argmax(1), n_classes)


def _constant(counts: FloatArray) -> bool:
    """Whether nearly all users of every class got the same guess."""
    return bool(np.nanmin(leakage.rates(counts), axis=0).max() > 0.99)


def _relabelled(trials: list[Trial], n_classes: int) -> FloatArray:
    """BAcc* of each fold: balanced accuracy after the relabelling learned on that fold's inner guesses."""
    scores = []
    for trial in trials:
        g = leakage.relabelling(_inner_counts(trial, n_classes))
        counts = leakage.confusion(trial.test.truth, g[trial.test.score.argmax(1)], n_classes)
        scores.append(leakage.balanced_accuracy(counts))
    return np.array(scores)


def _resolution(counts: Sequence[int], margin: float, rules: Folds) -> float:
    """The smallest advantage that, once an attacker has it, is called a leak 95 % of the time."""
    errors, beyond = seen_surely(rules.folds, rules.seeds, rules.test_share), float(stats.norm.ppf(POWER))
    size = 0.0
    for _ in range(3):  # the spread grows with the recall, and the recall with the advantage
        error = advantage_error(size, counts)
        size = max(errors * error, margin + beyond * error)
    return size


def _detectable(resolution: float, counts: Sequence[int], d: int, rules: Folds) -> float:
    """The smallest leak that is surely seen by attackers who first have to learn it from the users they know."""
    known = rules.leak_ratio or 1 - 1 / rules.folds
    return allow_for_learning(resolution, [known * n for n in counts], d)
