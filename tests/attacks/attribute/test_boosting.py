"""Boosted trees on a table that is binned once."""

from __future__ import annotations

import numpy as np

from recveil.attacks.attribute.boosting import BoostedTrees
from recveil.attacks.attribute.tasks import Task


def test_trees_find_a_step_in_one_column_and_never_read_test_classes() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((600, 4))
    y = (np.abs(x[:, 2]) > 0.7).astype(np.int64)
    task = Task(np.arange(400), np.arange(400, 600))
    [guess] = BoostedTrees(iterations=10).guess(x, y, 3, [task], rng=np.random.default_rng(1))
    assert np.mean(guess.argmax(1) == y[400:]) > 0.95
    assert not guess[:, 2].any()  # nobody of the third class is known
    hidden = np.where(np.arange(600) < 400, y, 2)
    [same] = BoostedTrees(iterations=10).guess(x, hidden, 3, [task], rng=np.random.default_rng(1))
    assert np.array_equal(guess, same)
