"""Who knows what: the rules under which an attack meets a release.

In the attribute game the attacker knows the attribute of most users and guesses it for the others. Within the users it
knows, inner folds show how well each attack does and what its guesses mean; the users under attack are used once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from sklearn.model_selection import StratifiedKFold

from recveil.attacks.attribute.tasks import Attack, Bagged, Task
from recveil.core.errors import UsageError
from recveil.core.random import generator
from recveil.core.types import FloatArray, IntArray, Scores

__all__ = ["Folds", "Trial", "deal", "play_folds"]


@dataclass(frozen=True)
class Folds:
    """How the users are dealt: `folds` stratified parts, `seeds` times over, `inner` parts of each training part.

    `leak_ratio` is the share of all users whose attribute the attacker knows; if not given, all who are not attacked.
    """

    folds: int = 5
    seeds: int = 2
    inner: int = 2
    leak_ratio: float | None = None

    def __post_init__(self) -> None:
        if self.leak_ratio is not None and not 0 < self.leak_ratio <= 1 - 1 / self.folds + 1e-9:
            raise UsageError(
                f"A leak ratio of {self.leak_ratio:g} is not possible with {self.folds} folds. It must lie above 0 and "
                f"at or below {1 - 1 / self.folds:g}, the share of the users who are not under attack."
            )

    @property
    def test_share(self) -> float:
        """n_test / n_train."""
        return (1 / self.folds) / (self.leak_ratio or 1 - 1 / self.folds)


@dataclass(frozen=True, eq=False)
class Trial:
    """One attack on one fold: its scores on inner folds (to choose by) and on the users under attack (to report)."""

    attack: str
    inner: Scores
    test: Scores


def play_folds(
    x: FloatArray,
    codes: IntArray,
    n_classes: int,
    attacks: Mapping[str, Attack],
    *,
    rules: Folds,
    seed: int,
    seen_in: FloatArray | None = None,
) -> dict[str, list[Trial]]:
    """Let each attack play every fold of every seed; all `codes` must be known.

    With `seen_in`, the attacker learns from the rows of `x` and meets the users under attack in that other table: the
    static attacker, who learned before a defense and does not learn again.
    """
    deals = [d for s in range(rules.seeds) for d in deal(codes, rules, generator(seed, "folds", s))]
    if seen_in is not None:
        deals = [(Task(outer.train, outer.test + len(x)), inners) for outer, inners in deals]
        x, codes = np.concatenate([x, seen_in]), np.concatenate([codes, codes])
    tasks = [task for outer, inners in deals for task in (outer, *inners)]
    played = {}
    for name, attack in attacks.items():
        if isinstance(attack, Bagged):
            played[name] = _bagged(name, x, codes, n_classes, attack, [d[0] for d in deals], seed)
            continue
        guesses = iter(attack.guess(x, codes, n_classes, tasks, rng=generator(seed, "attack", name)))
        played[name] = [_trial(name, codes, outer, inners, guesses) for outer, inners in deals]
    return played


def _bagged(
    name: str, x: FloatArray, codes: IntArray, n_classes: int, attack: Bagged, outer: list[Task], seed: int
) -> list[Trial]:
    """Instead of inner folds, what the parts of the attack say of known users they did not learn from."""
    both = attack.guess_both(x, codes, n_classes, outer, rng=generator(seed, "attack", name))
    return [
        Trial(name, Scores(t.train, codes[t.train], known), Scores(t.test, codes[t.test], test))
        for t, (test, known) in zip(outer, both, strict=True)
    ]


def deal(codes: IntArray, rules: Folds, rng: np.random.Generator) -> list[tuple[Task, list[Task]]]:
    """For each fold: the outer task, and the inner tasks among its training users."""
    deals = []
    for rest, test in _cut(codes, rules.folds, rng):
        train = rest if rules.leak_ratio is None else _known(rest, codes, rules, rng)
        inner = [Task(train[a], train[b]) for a, b in _cut(codes[train], rules.inner, rng)]
        deals.append((Task(train, test), inner))
    return deals


def _known(rest: IntArray, codes: IntArray, rules: Folds, rng: np.random.Generator) -> IntArray:
    """The users whose attribute the attacker knows: the same share of every class, at least one for each inner fold."""
    assert rules.leak_ratio is not None
    share = rules.leak_ratio / (1 - 1 / rules.folds)
    shuffled = rng.permutation(rest)
    by_class = shuffled[np.argsort(codes[shuffled], kind="stable")]
    counts = np.bincount(codes[rest])
    place = np.arange(len(rest)) - (np.cumsum(counts) - counts)[codes[by_class]]
    kept = np.maximum(rules.inner, np.ceil(share * counts - 1e-9))
    return np.sort(by_class[place < kept[codes[by_class]]])


def _cut(codes: IntArray, folds: int, rng: np.random.Generator) -> list[tuple[IntArray, IntArray]]:
    cutter = StratifiedKFold(folds, shuffle=True, random_state=int(rng.integers(2**31 - 1)))
    return list(cutter.split(np.zeros(len(codes)), codes))


def _trial(name: str, codes: IntArray, outer: Task, inners: list[Task], guesses: Iterator[FloatArray]) -> Trial:
    test = Scores(outer.test, codes[outer.test], next(guesses))
    users = np.concatenate([t.test for t in inners])
    inner = Scores(users, codes[users], np.concatenate([next(guesses) for _ in inners]))
    return Trial(name, inner, test)
