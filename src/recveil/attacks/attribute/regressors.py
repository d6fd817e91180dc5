"""Attackers of a number (an age in years, an income): regressions of it on the vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.compose import TransformedTargetRegressor
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import RidgeCV
from sklearn.neighbors import KNeighborsRegressor
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from recveil.attacks.attribute.tasks import Task, run_tasks
from recveil.core.types import FloatArray

__all__ = ["REGRESSIONS", "guess_numbers"]

REGRESSIONS: dict[str, Callable[[int, int], Any]] = {
    "mean": lambda n, seed: DummyRegressor(),
    "ridge": lambda n, seed: RidgeCV(np.logspace(-2, 5, 15)),
    "knn": lambda n, seed: KNeighborsRegressor(min(25, n)),
    "trees": lambda n, seed: HistGradientBoostingRegressor(
        max_iter=60, max_leaf_nodes=15, early_stopping=False, random_state=seed
    ),
    "mlp": lambda n, seed: MLPRegressor(
        hidden_layer_sizes=(100,),
        learning_rate_init=5e-3,
        early_stopping=n >= 50,
        max_iter=60,
        n_iter_no_change=6,
        random_state=seed,
    ),
}
"""Name -> constructor, given the number of training users and a seed. `mean` looks at nothing."""


def guess_numbers(
    name: str, x: FloatArray, values: FloatArray, tasks: Sequence[Task], *, rng: np.random.Generator
) -> list[FloatArray]:
    """The guesses of one attacker for the test users of each task, from its training users alone.

    Vectors and numbers are standardized on the training users.
    """
    x = np.asarray(x, dtype=np.float64)

    def one(task: Task, seed: int) -> FloatArray:
        attacker = REGRESSIONS[name](len(task.train), seed)
        whole = TransformedTargetRegressor(make_pipeline(StandardScaler(), attacker), transformer=StandardScaler())
        whole.fit(x[task.train], values[task.train])
        return np.asarray(whole.predict(x[task.test]), dtype=np.float64)

    return run_tasks(one, tasks, size=x.size, label=name, rng=rng)
