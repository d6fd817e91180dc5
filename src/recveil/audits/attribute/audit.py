"""The audit of one attribute: attacks, numbers that can be trusted, and a verdict.

Everything that is chosen (which attacker speaks for the panel, what its predictions mean) is chosen on the inner folds
of each fold; the attacked users are used once, to score. Intervals are the corrected resampled t over folds (Nadeau
and Bengio 2003).
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count

import numpy as np
from scipy import stats

from recveil.attacks.attribute.classifiers import Classifier, as_attack
from recveil.attacks.attribute.panels import is_blind, make_panel
from recveil.attacks.attribute.tasks import Attack
from recveil.audits.attribute.folds import (
    AttackedUsers,
    CrossValidation,
    FoldTrial,
    add_repeats,
    run_repeats,
)
from recveil.audits.attribute.user_order import find_copies, order_users
from recveil.audits.verdicts import MARGIN, MAX_USEFUL_REPEATS, METRICS, TargetAudit
from recveil.core.errors import DataError, UsageError
from recveil.core.progress import track_progress
from recveil.core.random import make_generator
from recveil.core.result_parts import AttackResult, Verdict
from recveil.core.types import Attribute, Estimate, FloatArray, IntArray, Record
from recveil.data.io.ids import Ids
from recveil.data.io.user_tables import require_classes
from recveil.metrics import leakage
from recveil.metrics.intervals import (
    CLEAR_LEVEL,
    CONFIDENCE_LEVEL,
    compute_corrected_error,
    compute_corrected_p,
    estimate_advantage,
    estimate_corrected_mean,
)
from recveil.metrics.power import TARGET_POWER, allow_for_learning, compute_advantage_error, compute_detection_threshold

__all__ = ["audit_attribute", "list_records", "select_users"]


def audit_attribute(
    x: FloatArray,
    attribute: Attribute,
    attacks: Mapping[str, Attack | Classifier] | None = None,
    *,
    rules: CrossValidation | None = None,
    margin: float = MARGIN,
    seed: int = 0,
    ids: Ids | None = None,
    attacked_in: FloatArray | None = None,
) -> TargetAudit:
    """Attack an attribute and judge what the attacks reach.

    Args:
        x: user vectors, one row for each user.
        attribute: the attribute, with classes.
        attacks: attacks by name, or scikit-learn classifiers and pipelines; the `fast` panel if None.
        rules: the folds.
        margin: the advantage under which a leak is not called one.
        seed: the same seed gives the same audit, in any order of the rows.
        ids: id of each row, from which folds are derived; the rows themselves serve where there are none.
        attacked_in: table in which the attacker meets the attacked users, for the static attacker.

    Raises:
        DataError: the table or the attribute cannot be audited.
    """
    rules = rules or CrossValidation()
    panel = {name: as_attack(attack, name) for name, attack in attacks.items()} if attacks else make_panel("fast")
    if rules.folds < 2 or rules.repeats < 1:
        raise UsageError(f"An audit needs at least 2 folds and 1 repeat; got {rules.folds} and {rules.repeats}.")
    _check_inputs(x, attribute)
    rows = order_users(x, attribute.codes, seed, ids)
    groups, copies = find_copies(x[rows], rules.folds)
    chosen, labels, notes = select_users(
        attribute.take(rows), rules.folds, inner_folds=rules.inner_folds, groups=groups
    )
    rows, groups = rows[chosen], groups[chosen]
    codes = np.unique(attribute.codes[rows], return_inverse=True)[1].astype(np.int64)
    attacked = None if attacked_in is None else attacked_in[rows]
    users = AttackedUsers(x[rows], codes, len(labels), attacked, groups)
    found = _attack_until_resolved(users, panel, labels, rules=rules, margin=margin, seed=seed)
    return replace(
        found,
        target=attribute.name,
        p_value=_compute_p_value(users, panel, found, rules=replace(rules, repeats=found.repeats_used), seed=seed),
        notes=[*notes, *(f"{attribute.name}: {note}" for note in copies)],
        users=rows,
        n_undisclosed=int((~attribute.known).sum()),
    )


def _attack_until_resolved(
    users: AttackedUsers,
    attacks: Mapping[str, Attack],
    labels: tuple[str, ...],
    *,
    rules: CrossValidation,
    margin: float,
    seed: int,
) -> TargetAudit:
    """Run the attacks, and add repeats while the audit is inconclusive and repeats can resolve it.

    The repeats are doubled up to rules.max_repeats; none are added if they would take longer than rules.max_seconds.
    Where it may add some, a leak that is clear after the first repeat needs no other; else there are exactly
    rules.repeats.
    """
    start, first, wanted = time.monotonic(), 0, rules.repeats
    rules = replace(rules, repeats=1) if rules.max_repeats > wanted else rules
    trials: dict[str, list[FoldTrial]] = {name: [] for name in attacks}
    while True:
        for name, each in run_repeats(users, attacks, rules=rules, seed=seed, first=first).items():
            trials[name] += each
        headline = _select_headline_trials(trials)
        found = _summarize_trials(trials, headline, labels, rules, margin=margin, d=users.x.shape[1])
        first, most = rules.repeats, max(rules.repeats, rules.max_repeats)
        if first < wanted and not _is_clear_leak(found, rules):
            rules = replace(rules, repeats=wanted)
            continue
        resolution = _compute_resolution(found.counts, margin, replace(rules, repeats=most))
        if found.verdict is not Verdict.INCONCLUSIVE or found.headline.degenerate or resolution >= 2 * margin:
            return found
        more = add_repeats(rules, start)
        if more is None:
            return found
        rules = more


def _is_clear_leak(found: TargetAudit, rules: CrossValidation) -> bool:
    """Tell whether there is a leak at a level so strict that looking early costs no false alarms."""
    error = compute_corrected_error(found.fold_advantages, rules.test_share)
    least = found.fold_advantages.mean() - stats.t.ppf(0.5 + CLEAR_LEVEL / 2, len(found.fold_advantages) - 1) * error
    return bool(least > found.margin)


def _summarize_trials(
    trials: dict[str, list[FoldTrial]],
    headline: list[FoldTrial],
    labels: tuple[str, ...],
    rules: CrossValidation,
    *,
    margin: float,
    d: int,
) -> TargetAudit:
    """Summarize what the attacks reached on d-dimensional vectors; name, p-value, notes and users are not set."""
    confusion = np.sum([_count_predictions(t, len(labels)) for t in headline], axis=0)
    counts = tuple(int(n) // rules.repeats for n in confusion.sum(axis=1))
    resolution = _compute_resolution(counts, margin, rules)
    return TargetAudit(
        target="",
        labels=labels,
        counts=counts,
        attacks={name: _summarize_attack(each, labels, rules) for name, each in trials.items()},
        headline=_summarize_attack(headline, labels, rules),
        fold_shares={name: n / len(headline) for name, n in sorted(Counter(t.attack for t in headline).items())},
        p_value=math.nan,
        confusion=leakage.compute_rates(confusion),
        margin=margin,
        resolution=resolution,
        detectable=_compute_detectable(resolution, counts, d, rules),
        trials=trials,
        fold_advantages=leakage.compute_advantage(_score_relabelled(headline, len(labels)), len(labels)),
        repeats_used=rules.repeats,
        best_resolution=_compute_resolution(
            counts, margin, replace(rules, repeats=max(rules.repeats, MAX_USEFUL_REPEATS))
        ),
    )


def _check_inputs(x: FloatArray, attribute: Attribute) -> None:
    if x.ndim != 2 or len(x) != len(attribute.codes):
        raise DataError(
            f"The vectors have shape {x.shape} and '{attribute.name}' is given for {len(attribute.codes):,} users. "
            f"Give a table with one row for each of these users."
        )
    if not np.isfinite(x).all():
        raise DataError("The user vectors hold NaN or infinite values. Remove or repair those rows first.")
    if attribute.is_numeric:
        raise DataError(f"Attribute '{attribute.name}' is a number, not a class. Cut it into classes first.")


def select_users(
    attribute: Attribute, folds: int, *, inner_folds: int = 2, groups: IntArray | None = None
) -> tuple[IntArray, tuple[str, ...], list[str]]:
    """Select the users who can take part; return them, the labels of their classes and notes on the others.

    A class takes part if it has a user in every fold, and in every inner fold of what the other folds leave. Users of
    one group, which stays in one fold, count as one.
    """
    require_classes(attribute, minimum=0)
    counts, name = attribute.counts, attribute.name
    different = counts if groups is None else _count_groups(attribute, groups)
    present = np.flatnonzero(counts)
    fewest = next(c for c in count(folds) if c - math.ceil(c / folds) >= inner_folds)
    kept = [k for k in present if different[k] >= fewest]
    notes = [
        f"{name}: class '{attribute.labels[k]}' was left out, its {_describe_size(counts[k], different[k], fewest)} "
        f"too few for {folds} folds."
        for k in present
        if different[k] < fewest
    ]
    if len(kept) < 2:
        advice = "Use fewer folds, or merge classes." if folds > 2 else "Merge classes."
        raise DataError(f"Attribute '{name}' has fewer than two classes of at least {fewest} users. {advice}")
    unknown = int((~attribute.known).sum())
    if unknown:
        notes.append(f"{name}: {unknown:,} users are undisclosed and took no part.")
    return np.flatnonzero(np.isin(attribute.codes, kept)), tuple(attribute.labels[k] for k in kept), notes


def _count_groups(attribute: Attribute, groups: IntArray) -> IntArray:
    """Count the groups of each class; a group has the class of its first user."""
    known = np.flatnonzero(attribute.known)
    first = np.unique(groups[known], return_index=True)[1]
    return np.bincount(attribute.codes[known][first], minlength=len(attribute.labels))


def _describe_size(users: int, different: int, fewest: int) -> str:
    if users >= fewest:
        return f"{users} users are copies of {different}, which are"
    return f"{users} users are" if users != 1 else "1 user is"


def list_records(results: Sequence[TargetAudit], *, dataset: str, model: str, defense: str, seed: int) -> list[Record]:
    """List one record for each target, attack and metric."""
    return [
        Record(dataset, model, defense, name, result.target, seed, metric, dict(attack)[metric])
        for result in results
        for name, attack in {**result.attacks, "headline": result.headline}.items()
        for metric in METRICS
    ]


def _select_headline_trials(trials: Mapping[str, list[FoldTrial]]) -> list[FoldTrial]:
    """Select for each fold the attack that speaks for the panel; attacks that never look at vectors do not qualify."""
    candidates = [each for name, each in trials.items() if not is_blind(name)]
    if not candidates:
        raise UsageError(f"None of {', '.join(trials)} looks at the user vectors. Add an attack that does.")
    return [_select_strongest_trial(list(fold)) for fold in zip(*candidates, strict=True)]


def _compute_p_value(
    users: AttackedUsers, attacks: Mapping[str, Attack], found: TargetAudit, *, rules: CrossValidation, seed: int
) -> float:
    """Compute how often pure chance does as well as the headline."""
    K = users.n_classes
    reached = _score_relabelled(_select_headline_trials(found.trials), K)
    if not rules.permutations:
        return compute_corrected_p(reached, rules.test_share, 1 / K, two_sided=False)
    rng, as_good = make_generator(seed, "permutations"), 0
    rules = replace(rules, memory=None)
    for _ in track_progress(range(rules.permutations), "permuting the labels", rules.permutations):
        shuffled = replace(users, codes=rng.permutation(users.codes), attacked_in=None)
        trials = run_repeats(shuffled, attacks, rules=rules, seed=seed)
        # Rounding must not break a tie in favor of a leak.
        as_good += bool(_score_relabelled(_select_headline_trials(trials), K).mean() >= reached.mean() - 1e-12)
    return (1 + as_good) / (rules.permutations + 1)


def _select_strongest_trial(trials: list[FoldTrial]) -> FoldTrial:
    """Select the attack whose inner predictions say most; the first of the panel on equal terms."""
    K = trials[0].test.score.shape[1]
    return max(trials, key=lambda t: leakage.compute_guessing_power(_count_inner_predictions(t, K)))


def _summarize_attack(trials: list[FoldTrial], labels: tuple[str, ...], rules: CrossValidation) -> AttackResult:
    K = len(labels)
    n = sum(len(t.test.users) for t in trials) // rules.repeats
    folds = [_count_predictions(t, K) for t in trials]

    def over_folds(values: list[float]) -> Estimate:
        return estimate_corrected_mean(np.array(values), rules.test_share, n, lowest=0.0, highest=1.0)

    raw = np.array([leakage.balanced_accuracy(c) for c in folds])
    signed = leakage.compute_advantage(_score_relabelled(trials, K), K)
    recall = np.stack([leakage.compute_recalls(c) for c in folds])
    return AttackResult(
        balanced_accuracy=over_folds(list(raw)),
        advantage=estimate_advantage(signed, rules.test_share, n),
        accuracy=over_folds([leakage.accuracy(c) for c in folds]),
        macro_f1=over_folds([leakage.macro_f1(c) for c in folds]),
        auc=over_folds([float(np.nanmean(leakage.compute_class_aucs(t.test.truth, t.test.score))) for t in trials]),
        recall={label: over_folds(list(recall[:, k])) for k, label in enumerate(labels)},
        inverted=bool(
            raw.mean() < 1 / K
            and compute_corrected_p(raw, rules.test_share, 1 / K, two_sided=True) < 1 - CONFIDENCE_LEVEL
        ),
        degenerate=bool(np.mean([_is_constant(c) for c in folds]) > 0.5),
    )


def _count_predictions(trial: FoldTrial, n_classes: int) -> FloatArray:
    return leakage.compute_confusion(trial.test.truth, trial.test.score.argmax(1), n_classes)


def _count_inner_predictions(trial: FoldTrial, n_classes: int) -> FloatArray:
    return leakage.compute_confusion(trial.inner.truth, trial.inner.score.argmax(1), n_classes)


def _is_constant(counts: FloatArray) -> bool:
    """Tell whether nearly all users of every class got the same prediction."""
    return bool(np.nanmin(leakage.compute_rates(counts), axis=0).max() > 0.99)


def _score_relabelled(trials: list[FoldTrial], n_classes: int) -> FloatArray:
    """Score each fold: balanced accuracy after the relabelling learned on its inner predictions (BAcc*)."""
    scores = []
    for trial in trials:
        g = leakage.learn_relabeling(_count_inner_predictions(trial, n_classes))
        counts = leakage.compute_confusion(trial.test.truth, g[trial.test.score.argmax(1)], n_classes)
        scores.append(leakage.balanced_accuracy(counts))
    return np.array(scores)


def _compute_resolution(counts: Sequence[int], margin: float, rules: CrossValidation) -> float:
    """Compute the smallest advantage that, once an attacker has it, is called a leak with 95 % power."""
    errors, beyond = (
        compute_detection_threshold(rules.folds, rules.repeats, rules.test_share),
        float(stats.norm.ppf(TARGET_POWER)),
    )
    size = 0.0
    for _ in range(3):  # the spread grows with the recall, and the recall with the advantage
        error = compute_advantage_error(size, counts)
        size = max(errors * error, margin + beyond * error)
    return size


def _compute_detectable(resolution: float, counts: Sequence[int], d: int, rules: CrossValidation) -> float:
    """Compute the smallest leak that attackers, who have to learn it, detect with 95 % power."""
    known = rules.leak_ratio or 1 - 1 / rules.folds
    return allow_for_learning(resolution, [known * n for n in counts], d)
