"""Who knows what: the rules under which an attack meets a release.

In the attribute game the attacker knows the attribute of most users and guesses it for the others. Within the users it
knows, inner folds show how well each attack does and what its guesses mean; the users under attack are used once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from sklearn.model_selection import StratifiedKFold

from recveil.attacks.attribute.tasks import Attack, Task
from recveil.core import FloatArray, IntArray, Scores
from recveil.random import generator

__all__ = ["Folds", "Trial", "play_folds"]


@dataclass(frozen=True)
class Folds:
    """How the users are dealt: `folds` stratified parts, `seeds` times over, `inner` parts of each training part."""

    folds: int = 5
    seeds: int = 2
    inner: int = 2

    @property
    def test_share(self) -> float:
        """n_test / n_train."""
        return 1 / (self.folds - 1)


@dataclass(frozen=True, eq=False)
class Trial:
    """One attack on one fold: its scores on inner folds (to choose by) and on the users under attack (to report)."""

    attack: str
    inner: Scores
    test: Scores


def play_folds(
    x: FloatArray, codes: IntArray, n_classes: int, attacks: Mapping[str, Attack], *, rules: Folds, seed: int
) -> dict[str, list[Trial]]:
    """Let each attack play every fold of every seed; all `codes` must be known."""
    deals = [deal for s in range(rules.seeds) for deal in _deal(codes, rules, generator(seed, "folds", s))]
    tasks = [task for outer, inners in deals for task in (outer, *inners)]
    played = {}
    for name, attack in attacks.items():
        guesses = iter(attack.guess(x, codes, n_classes, tasks, rng=generator(seed, "attack", name)))
        played[name] = [_trial(name, codes, outer, inners, guesses) for outer, inners in deals]
    return played


def _deal(codes: IntArray, rules: Folds, rng: np.random.Generator) -> list[tuple[Task, list[Task]]]:
    """For each fold: the outer task, and the inner tasks among its training users."""
    deals = []
    for train, test in _cut(codes, rules.folds, rng):
        inner = [Task(train[a], train[b]) for a, b in _cut(codes[train], rules.inner, rng)]
        deals.append((Task(train, test), inner))
    return deals


def _cut(codes: IntArray, folds: int, rng: np.random.Generator) -> list[tuple[IntArray, IntArray]]:
    cutter = StratifiedKFold(folds, shuffle=True, random_state=int(rng.integers(2**31 - 1)))
    return list(cutter.split(np.zeros(len(codes)), codes))


def _trial(name: str, codes: IntArray, outer: Task, inners: list[Task], guesses: Iterator[FloatArray]) -> Trial:
    test = Scores(outer.test, codes[outer.test], next(guesses))
    users = np.concatenate([t.test for t in inners])
    inner = Scores(users, codes[users], np.concatenate([next(guesses) for _ in inners]))
    return Trial(name, inner, test)
