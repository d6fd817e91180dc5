"""Attackers that do not look are at chance, exactly or on average, and keep the rest of an attack's promises."""

from __future__ import annotations

import numpy as np
import pytest

from recveil.attacks.attribute.panels import make_attack
from recveil.attacks.attribute.tasks import Task
from recveil.metrics.leakage import balanced_accuracy, compute_confusion
from recveil.testing.worlds import make_planted_leak

Y = np.random.default_rng(0).permutation(np.repeat([0, 1, 2], [1400, 400, 200]))
X = np.eye(3)[Y]  # the label itself, which they must not see
TASK = Task(np.arange(1000), np.arange(1000, 2000))


def guess(name: str, x: np.ndarray = X, y: np.ndarray = Y, task: Task = TASK, seed: int = 0) -> np.ndarray:
    return make_attack(name).guess(x, y, 3, [task], rng=np.random.default_rng(seed))[0]


def test_majority_is_exactly_chance_and_ranks_nobody() -> None:
    belief = guess("majority")
    assert balanced_accuracy(compute_confusion(Y[TASK.test], belief.argmax(1), 3)) == 1 / 3
    assert np.ptp(belief, axis=0).max() == 0
    np.testing.assert_allclose(belief[0], np.bincount(Y[TASK.train]) / 1000, atol=1e-6)


def test_random_is_chance_on_average_in_the_proportions_of_the_training_users() -> None:
    drawn = np.stack([guess("random", seed=s).argmax(1) for s in range(40)])
    reached = [balanced_accuracy(compute_confusion(Y[TASK.test], d, 3)) for d in drawn]
    assert abs(np.mean(reached) - 1 / 3) < 0.01
    assert np.std(reached) > 0.005
    np.testing.assert_allclose(np.bincount(drawn.ravel()) / drawn.size, np.bincount(Y[TASK.train]) / 1000, atol=0.01)


@pytest.mark.parametrize("name", ["majority", "random"])
def test_the_other_promises_of_an_attack(name: str) -> None:
    belief = guess(name)
    assert belief.shape == (1000, 3)
    assert (belief >= 0).all()
    np.testing.assert_allclose(belief.sum(1), 1, atol=1e-6)
    np.testing.assert_array_equal(guess(name), belief)
    other, _ = make_planted_leak(2000, 3, 3, 1.0, rng=np.random.default_rng(1))
    np.testing.assert_array_equal(guess(name, x=other), belief)
    lied = Y.copy()
    lied[TASK.test] = (lied[TASK.test] + 1) % 3
    np.testing.assert_array_equal(guess(name, y=lied), belief)
    np.testing.assert_array_equal(guess(name, task=Task(TASK.train, TASK.test[::-1]))[::-1], belief)
    met = Task(np.flatnonzero(Y != 1), TASK.test)
    assert (guess(name, task=met)[:, 1] == 0).all()
