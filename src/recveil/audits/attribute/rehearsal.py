"""The rehearsal: attack users whose known class was hidden from a defense.

Undisclosed users cannot be audited, because nobody knows their class. So the class of some known users is hidden from
the defense, and these users are attacked: by an attacker who learned from the disclosed users, and by one who also
knows half of the hidden ones. A third attacker tells who disclosed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from scipy import stats

from recveil.attacks.attribute.panels import is_blind
from recveil.attacks.attribute.tasks import Attack, Task
from recveil.audits.attribute.audit import audit_attribute
from recveil.audits.attribute.folds import AttackedUsers, CrossValidation, draw_folds
from recveil.core.errors import DataError
from recveil.core.random import make_generator
from recveil.core.rehearsal_parts import RehearsalTarget
from recveil.core.types import UNDISCLOSED, Attribute, Estimate, FloatArray, IntArray
from recveil.metrics import leakage
from recveil.metrics.intervals import CONFIDENCE_LEVEL

__all__ = ["attack_hidden_users", "hide_classes"]

MIN_USERS_PER_CLASS = 4
"""Hidden and disclosed users of each class that a rehearsal needs."""


def hide_classes(attribute: Attribute, share: float, *, seed: int) -> Attribute:
    """Return the attribute with the class of a share of the disclosed users hidden, of every class alike.

    Args:
        attribute: the attribute.
        share: share of the disclosed users to hide.
        seed: draws the users.

    Raises:
        DataError: a class has too few users.
    """
    rng, codes = make_generator(seed, "rehearsal", attribute.name), attribute.codes.copy()
    for k in np.flatnonzero(attribute.counts):
        members = rng.permutation(np.flatnonzero(attribute.codes == k))
        n_hidden = round(share * len(members))
        if min(n_hidden, len(members) - n_hidden) < MIN_USERS_PER_CLASS:
            raise DataError(
                f"The class '{attribute.labels[k]}' of '{attribute.name}' has {len(members)} users, too few to hide "
                f"{share:.0%} of them and learn from the others. Hide another share, or merge classes."
            )
        codes[members[:n_hidden]] = UNDISCLOSED
    return replace(attribute, codes=codes)


def attack_hidden_users(
    defended: FloatArray, attribute: Attribute, shown: Attribute, attacks: Mapping[str, Attack], *, seed: int
) -> RehearsalTarget:
    """Attack the users whose class was hidden from the defense.

    Args:
        defended: the table as the defense left it.
        attribute: the true classes.
        shown: the classes that the defense was given.
        attacks: attacks by name.
        seed: the same seed gives the same numbers.
    """
    present, codes = np.unique(attribute.codes[attribute.known], return_inverse=True)
    everyone = np.flatnonzero(attribute.known)
    x, is_shown = defended[everyone], shown.known[everyone]
    disclosed, hidden = np.flatnonzero(is_shown), np.flatnonzero(~is_shown)
    rng, nobody = make_generator(seed, "rehearsal", "halves", attribute.name), hidden[:0]
    halves = [task for task, _ in draw_folds(codes[hidden], CrossValidation(folds=2), rng)]
    users = AttackedUsers(x, codes, len(present))
    from_disclosed = _attack_tasks(users, [Task(disclosed, hidden)], [nobody], attacks, seed)
    tasks = [Task(hidden[t.train], hidden[t.test]) for t in halves]
    knows_some = _attack_tasks(users, tasks, [disclosed, nobody], attacks, seed)
    disclosure = Attribute("disclosure", is_shown.astype(np.int64), ("hidden", "disclosed"))
    rules = CrossValidation(folds=5, repeats=1)
    told = audit_attribute(x, disclosure, attacks, rules=rules, seed=seed).headline.advantage
    return RehearsalTarget(n_hidden=len(hidden), from_disclosed=from_disclosed, knows_some=knows_some, disclosure=told)


def _attack_tasks(
    users: AttackedUsers, tasks: list[Task], helpers: Sequence[IntArray], attacks: Mapping[str, Attack], seed: int
) -> Estimate:
    """Return the advantage over the test users of all tasks of the attack that inner folds say is strongest.

    Args:
        users: all users.
        tasks: users like those under attack whose class is known, and users under attack.
        helpers: sets of users to learn from besides; the best one is chosen on the inner folds too, since users of
            another kind may mislead.
        attacks: attacks by name.
        seed: draws the inner folds.
    """
    K, counts = users.n_classes, np.zeros((users.n_classes, users.n_classes))
    for number, task in enumerate(tasks):
        folds = draw_folds(
            users.codes[task.train], CrossValidation(folds=2), make_generator(seed, "rehearsal", "inner", number)
        )
        inner = [Task(task.train[fold.train], task.train[fold.test]) for fold, _ in folds]
        trials = []
        for rows in helpers:
            with_helpers = [Task(np.concatenate([rows, each.train]), each.test) for each in (task, *inner)]
            for name, attack in attacks.items():
                if not is_blind(name):
                    draws = make_generator(seed, "rehearsal", name, number)
                    guesses = attack.guess(users.x, users.codes, K, with_helpers, rng=draws)
                    predicted = [guess.argmax(1) for guess in guesses]
                    trials.append((_count_predictions(users, inner, predicted[1:]), predicted[0]))
        learned, guess = max(trials, key=lambda trial: leakage.compute_guessing_power(trial[0]))
        counts += _count_predictions(users, [task], [leakage.learn_relabeling(learned)[guess]])
    return _estimate_from_counts(counts)


def _count_predictions(users: AttackedUsers, tasks: Sequence[Task], predicted: Sequence[IntArray]) -> FloatArray:
    truth = np.concatenate([users.codes[task.test] for task in tasks])
    return leakage.compute_confusion(truth, np.concatenate(predicted), users.n_classes)


def _estimate_from_counts(counts: FloatArray) -> Estimate:
    """Estimate the advantage from predictions of users who were each attacked once, with its binomial interval."""
    K, n = len(counts), counts.sum(1)
    recall = leakage.compute_recalls(counts)
    value = leakage.compute_advantage(leakage.balanced_accuracy(counts), K)
    smooth = (recall * n + 1) / (n + 2)  # a class that is guessed always or never has an error too
    error = float(np.sqrt((smooth * (1 - smooth) / n).sum()) / (K - 1))
    half = float(stats.norm.ppf((1 + CONFIDENCE_LEVEL) / 2)) * error
    low, high = value - half, value + half
    return Estimate(max(0.0, value), max(0.0, low), min(1.0, max(-low, high)), int(n.sum()))
