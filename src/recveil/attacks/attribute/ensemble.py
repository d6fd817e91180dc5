"""Ensemble: the mean of the standardized scores of strong attacks of different kinds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from recveil.attacks.attribute.classic import softmax
from recveil.attacks.attribute.panels import make_attack
from recveil.attacks.attribute.tasks import PooledAttack, Task
from recveil.core.traits import AttackTraits
from recveil.core.types import FloatArray, IntArray

__all__ = ["Ensemble"]

METHODS = (AttackTraits("ensemble", builder="Ensemble", panels=("full",), rank=210),)

MEMBERS = ("logistic", "mlp", "mlp-3", "kernel-ridge", "trees")
"""Attacks whose scores are averaged: a line, two networks, kernels and trees."""


@dataclass(frozen=True)
class Ensemble:
    """Mean of the standardized log-beliefs of a line, two networks, kernels and trees.

    It sees a weak leak that each of them sees in part. It costs as much as its members together.
    """

    members: tuple[str, ...] = MEMBERS
    device: str | None = None

    def pools_repeats(self, n_users: int, n_classes: int) -> bool:
        """Tell whether a member is best run on several repeats together."""
        members = [make_attack(name, self.device) for name in self.members]
        return any(isinstance(each, PooledAttack) and each.pools_repeats(n_users, n_classes) for each in members)

    def guess(
        self, x: FloatArray, y: IntArray, n_classes: int, tasks: Sequence[Task], *, rng: np.random.Generator
    ) -> list[FloatArray]:
        """Return the softmax of the mean standardized scores for the test users of each task."""
        attacks = [make_attack(name, self.device) for name in self.members]
        guesses = [attack.guess(x, y, n_classes, tasks, rng=rng) for attack in attacks]
        return [
            softmax(np.mean([_standardize_scores(g) for g in of_task], axis=0))
            for of_task in zip(*guesses, strict=True)
        ]


def _standardize_scores(beliefs: FloatArray) -> FloatArray:
    """Turn beliefs into scores of mean 0 in each row and variance 1 over the table."""
    scores = np.log(np.clip(np.asarray(beliefs, dtype=np.float64), 1e-6, None))
    scores -= scores.mean(1, keepdims=True)
    spread = float(scores.std())
    return scores / spread if spread > 0 else scores
