"""Folds of an attribute audit: which users the attacker knows, and which are attacked.

The attacker knows the attribute of most users and predicts it for the others. Inner folds among the known users show
how well each attack does and what its predictions mean; the attacked users are used once, to score.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from recveil.attacks.attribute.classifiers import BaggedAttack
from recveil.attacks.attribute.tasks import Attack, PooledAttack, Task
from recveil.core.errors import UsageError
from recveil.core.option_types import CountOrZero, Folds, LeakRatio, NonNegativeFloat, Repeats, check_fields
from recveil.core.random import make_generator
from recveil.core.types import FloatArray, IntArray, Scores

__all__ = [
    "AttackedUsers",
    "CrossValidation",
    "FoldTrial",
    "TrialMemory",
    "add_repeats",
    "draw_folds",
    "run_attacks_on_folds",
    "run_repeats",
]


@dataclass(frozen=True, eq=False)
class FoldTrial:
    """One attack on one fold: scores on the inner folds (to choose by) and on the attacked users (to report)."""

    attack: str
    inner: Scores
    test: Scores


Splits = list[tuple[Task, list[Task]]]
"""The outer task of each fold of a repeat, and the inner tasks among its training users."""

MAX_POOLED_REPEATS = 5
"""Repeats that an attack is run on together; each holds its solutions."""

TrialMemory = dict[tuple[str, str, str, int], list[FoldTrial]]
"""Trials by a digest of users and folds, the attack's name and options, and the repeat: nothing is attacked twice."""


@dataclass(frozen=True)
class CrossValidation:
    """Repeated stratified cross-validation of the attackers.

    Attributes:
        folds: stratified parts of the users; each is attacked in turn.
        repeats: how often the users are split again.
        inner_folds: parts of the known users, on which attackers are chosen; where the other folds can be divided
            among them evenly, each is made of whole folds, so that one fit serves the inner folds of several folds.
        leak_ratio: share of all users whose attribute the attacker knows; all who are not attacked if None.
        max_repeats: repeats up to which an inconclusive audit goes on, while a leak that is clear after the first needs
            no other; if it is not above `repeats`, there are exactly `repeats`.
        max_seconds: wall-clock seconds after which no repeats are added.
        permutations: permutations of the labels, each with all attacks again, for an exact p-value; with 0 the p-value
            is that of the corrected resampled t.
        memory: trials of earlier runs, which are not run again; new ones are added. None for none.
    """

    folds: Folds = 5
    repeats: Repeats = 2
    inner_folds: Folds = 2
    leak_ratio: LeakRatio | None = None
    permutations: CountOrZero = 0
    max_repeats: CountOrZero = 0
    max_seconds: NonNegativeFloat = 60.0
    memory: TrialMemory | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_fields(self, "")
        if self.leak_ratio is not None and self.leak_ratio > 1 - 1 / self.folds + 1e-9:
            raise UsageError(
                f"A leak ratio of {self.leak_ratio:g} is not possible with {self.folds} folds. It must lie above 0 and "
                f"at or below {1 - 1 / self.folds:g}, the share of the users who are not under attack."
            )

    @property
    def folds_per_inner_fold(self) -> int:
        """Folds that make up an inner fold; 0 where inner folds are drawn among the known users."""
        whole, rest = divmod(self.folds - 1, self.inner_folds)
        return whole if rest == 0 and self.leak_ratio is None else 0

    @property
    def test_share(self) -> float:
        """Attacked users over known users, n_test / n_train."""
        return (1 / self.folds) / (self.leak_ratio or 1 - 1 / self.folds)


def add_repeats(rules: CrossValidation, start: float) -> CrossValidation | None:
    """Return the rules with twice the repeats, up to their limit; None if that is reached or would take too long.

    Args:
        rules: rules whose repeats have all been run.
        start: `time.monotonic()` when they were begun.
    """
    more = min(2 * rules.repeats, rules.max_repeats)
    is_late = (time.monotonic() - start) * more / rules.repeats > rules.max_seconds
    return None if more <= rules.repeats or is_late else replace(rules, repeats=more)


@dataclass(frozen=True, eq=False)
class AttackedUsers:
    """The users of an audit; all classes are known.

    Attributes:
        x: user vectors.
        codes: class of each user.
        n_classes: number of classes.
        attacked_in: table in which the attacker meets the attacked users; the attacker learns from `x`. This is the
            static attacker, who learned before a defense and does not learn again.
        groups: group of each user; users of one group stay in one fold.
    """

    x: FloatArray
    codes: IntArray
    n_classes: int
    attacked_in: FloatArray | None = None
    groups: IntArray | None = None


def run_attacks_on_folds(
    x: FloatArray,
    codes: IntArray,
    n_classes: int,
    attacks: Mapping[str, Attack],
    *,
    rules: CrossValidation,
    seed: int,
    attacked_in: FloatArray | None = None,
) -> dict[str, list[FoldTrial]]:
    """Run each attack on every fold of every repeat; the arguments are those of `AttackedUsers` and `run_repeats`."""
    return run_repeats(AttackedUsers(x, codes, n_classes, attacked_in), attacks, rules=rules, seed=seed)


def run_repeats(
    users: AttackedUsers, attacks: Mapping[str, Attack], *, rules: CrossValidation, seed: int, first: int = 0
) -> dict[str, list[FoldTrial]]:
    """Run each attack on every fold of the repeats `first`, ..., rules.repeats - 1.

    A repeat does not depend on the others, so that repeats can be added to an audit.

    Args:
        users: the users.
        attacks: attacks by name.
        rules: the folds.
        seed: the same seed gives the same folds and predictions.
        first: repeats before this one are left out.

    Returns:
        For each attack its trials, one for each fold.
    """
    memory: TrialMemory = {} if rules.memory is None else rules.memory
    run, repeats = _digest_run(users, rules, seed), range(first, rules.repeats)
    plain_run = _digest_run(replace(users, attacked_in=None), rules, seed)
    names = {name: repr(attack) for name, attack in attacks.items()}
    for members, batch in _batch_repeats(users, attacks, repeats):
        missing = {name: [r for r in batch if (run, name, names[name], r) not in memory] for name in members}
        needed = {repeat for absent in missing.values() for repeat in absent}
        table, splits = _draw_repeats(users, rules, seed, sorted(needed))
        for name, absent in missing.items():
            if not absent:
                continue
            found = _run_attack(name, attacks[name], table, [splits[repeat] for repeat in absent], seed, absent[0])
            for repeat, each in zip(absent, found, strict=True):
                if users.attacked_in is not None:
                    both = [_split_tables(trial) for trial in each]
                    memory[plain_run, name, names[name], repeat] = [plain for plain, _ in both]
                    each = [static for _, static in both]
                memory[run, name, names[name], repeat] = each
    return {name: [t for repeat in repeats for t in memory[run, name, names[name], repeat]] for name in attacks}


def _batch_repeats(
    users: AttackedUsers, attacks: Mapping[str, Attack], repeats: range
) -> Iterator[tuple[list[str], range]]:
    """Return the attacks and repeats that are run together: one repeat, or several where that saves work."""
    pooled = [
        name
        for name, attack in attacks.items()
        if isinstance(attack, PooledAttack) and attack.pools_repeats(len(users.x), users.n_classes)
    ]
    for start in range(0, len(repeats), MAX_POOLED_REPEATS if pooled else max(1, len(repeats))):
        yield pooled, repeats[start : start + MAX_POOLED_REPEATS]
    for place in range(len(repeats)):
        yield [name for name in attacks if name not in pooled], repeats[place : place + 1]


def _split_tables(trial: FoldTrial) -> tuple[FoldTrial, FoldTrial]:
    """Return the trial on the attacked users in the table that the attacker learned from, and in the other one."""
    users, truth, score = (np.split(a, 2) for a in (trial.test.users, trial.test.truth, trial.test.score))
    plain, other = (Scores(users[i], truth[i], score[i]) for i in (0, 1))
    return replace(trial, test=plain), replace(trial, test=other)


def _digest_run(users: AttackedUsers, rules: CrossValidation, seed: int) -> str:
    """Digest all that decides the trials of an attack: users, folds and seed."""
    digest = hashlib.blake2b(repr((rules.folds, rules.inner_folds, rules.leak_ratio, users.n_classes, seed)).encode())
    for array in (users.x, users.codes, users.attacked_in, users.groups):
        digest.update(b"" if array is None else repr((array.shape, array.dtype)).encode())
        digest.update(b"" if array is None else np.ascontiguousarray(array).data)
    return digest.hexdigest()


def _draw_repeats(
    users: AttackedUsers, rules: CrossValidation, seed: int, repeats: Sequence[int]
) -> tuple[AttackedUsers, dict[int, Splits]]:
    """Return the table that is attacked, and the folds of each repeat."""
    splits = {r: draw_folds(users.codes, rules, make_generator(seed, "folds", r), users.groups) for r in repeats}
    if users.attacked_in is None:
        return users, splits
    # What was learned guesses the attacked users in both tables, so that one fit serves two audits.
    n = len(users.x)
    x, codes = np.concatenate([users.x, users.attacked_in]), np.concatenate([users.codes, users.codes])
    doubled = {
        repeat: [(Task(outer.train, np.concatenate([outer.test, outer.test + n])), inners) for outer, inners in each]
        for repeat, each in splits.items()
    }
    return replace(users, x=x, codes=codes), doubled


def _run_attack(
    name: str, attack: Attack, users: AttackedUsers, repeats: Sequence[Splits], seed: int, first: int
) -> list[list[FoldTrial]]:
    """Run an attack on the folds of these repeats, of which `first` is the number of the first."""
    rng = make_generator(seed, "attack", name, first)
    if isinstance(attack, BaggedAttack):
        return [_run_bagged_attack(name, users, attack, [outer for outer, _ in each], rng) for each in repeats]
    tasks = [task for each in repeats for outer, inners in each for task in (outer, *inners)]
    guesses = iter(attack.guess(users.x, users.codes, users.n_classes, tasks, rng=rng))
    return [[_build_trial(name, users.codes, o, inners, guesses) for o, inners in each] for each in repeats]


def _run_bagged_attack(
    name: str, users: AttackedUsers, attack: BaggedAttack, outer: list[Task], rng: np.random.Generator
) -> list[FoldTrial]:
    """Run an attack that predicts known users it left out; that serves in place of inner folds."""
    codes = users.codes
    both = attack.guess_both(users.x, codes, users.n_classes, outer, rng=rng)
    return [
        FoldTrial(name, Scores(t.train, codes[t.train], known), Scores(t.test, codes[t.test], test))
        for t, (test, known) in zip(outer, both, strict=True)
    ]


def draw_folds(
    codes: IntArray, rules: CrossValidation, rng: np.random.Generator, groups: IntArray | None = None
) -> Splits:
    """Draw the outer task of each fold and the inner tasks among its training users.

    With 5 folds and 2 inner folds, the training users of fold 0 are cut into folds 1 and 2 and folds 3 and 4. So there
    are five sets of users that inner tasks learn from, each of which serves two folds; all are as random as the folds.

    Args:
        codes: class of each user.
        rules: the folds.
        rng: draws the folds.
        groups: group of each user; users of one group stay in one fold. Each user is a group if None.
    """
    groups = np.arange(len(codes)) if groups is None else groups
    fold, splits = _assign_folds(codes, groups, rules.folds, rng), []
    for k in range(rules.folds):
        train = np.flatnonzero(fold != k)
        if rules.leak_ratio is not None:
            train = _draw_known_users(train, codes, groups, rules, rng)
        if rules.folds_per_inner_fold:
            inner = (fold[train] - k - 1) % rules.folds // rules.folds_per_inner_fold
        else:
            inner = _assign_folds(codes[train], groups[train], rules.inner_folds, rng)
        inners = [Task(train[inner != j], train[inner == j]) for j in range(rules.inner_folds)]
        splits.append((Task(train, np.flatnonzero(fold == k)), inners))
    return splits


def _draw_known_users(
    rest: IntArray, codes: IntArray, groups: IntArray, rules: CrossValidation, rng: np.random.Generator
) -> IntArray:
    """Draw the users that the attacker knows: the same share of every class, at least one for each inner fold."""
    assert rules.leak_ratio is not None
    share = rules.leak_ratio / (1 - 1 / rules.folds)
    shuffled = rng.permutation(rest)
    is_copy = np.ones(len(rest), dtype=bool)
    is_copy[np.unique(groups[shuffled], return_index=True)[1]] = False
    by_class = shuffled[np.lexsort((is_copy, codes[shuffled]))]  # copies last: inner folds need different users
    counts = np.bincount(codes[rest])
    place = np.arange(len(rest)) - (np.cumsum(counts) - counts)[codes[by_class]]
    kept = np.maximum(rules.inner_folds, np.ceil(share * counts - 1e-9))
    return np.sort(by_class[place < kept[codes[by_class]]])


def _assign_folds(codes: IntArray, groups: IntArray, folds: int, rng: np.random.Generator) -> IntArray:
    """Assign users to folds that have equally many groups of every class; a group has the class of its first user.

    Groups are assigned to the folds in turn, class by class, the large ones first and in random order otherwise.
    """
    _, first, group, sizes = np.unique(groups, return_index=True, return_inverse=True, return_counts=True)
    # Random numbers belong to users in their order, so that numbers of groups do not matter.
    order = np.lexsort((rng.random(len(codes))[first], -sizes, codes[first]))
    fold = np.empty(len(order), dtype=np.int64)
    fold[order] = rng.permutation(folds)[np.arange(len(order)) % folds]
    return fold[group]


def _build_trial(
    name: str, codes: IntArray, outer: Task, inners: list[Task], guesses: Iterator[FloatArray]
) -> FoldTrial:
    test = Scores(outer.test, codes[outer.test], next(guesses))
    users = np.concatenate([t.test for t in inners])
    inner = Scores(users, codes[users], np.concatenate([next(guesses) for _ in inners]))
    return FoldTrial(name, inner, test)
