"""Attacks on a number, such as an age: regressions on the user vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
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

from recveil.attacks.attribute.tasks import Task, run_tasks, share_fits
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
"""Constructors by name, called with the number of training users and a seed; `mean` ignores the vectors."""


def guess_numbers(
    name: str, x: FloatArray, values: FloatArray, tasks: Sequence[Task], *, rng: np.random.Generator
) -> list[FloatArray]:
    """Guess the numbers of the test users of each task.

    A task learns from its training users alone. Vectors and numbers are standardized on the training users.

    Args:
        name: name of the regression in `REGRESSIONS`.
        x: user vectors.
        values: number of each user.
        tasks: the tasks.
        rng: source of randomness.

    Returns:
        For each task one number for each test user.
    """
    x = np.asarray(x, dtype=np.float64)

    def solve_task(task: Task, seed: int) -> FloatArray:
        pipeline = make_pipeline(StandardScaler(), REGRESSIONS[name](len(task.train), seed))
        regression = TransformedTargetRegressor(pipeline, transformer=StandardScaler())
        regression.fit(x[task.train], values[task.train])
        return np.asarray(regression.predict(x[task.test]), dtype=np.float64)

    return share_fits(partial(run_tasks, solve_task, size=x.size, label=name, rng=rng), tasks)
