"""Stacks of tasks: groups, order and moments. That stacking changes nothing is in test_neural."""

from __future__ import annotations

import numpy as np
import torch
from sklearn.preprocessing import StandardScaler

from recveil.attacks.attribute import stacks
from recveil.attacks.attribute.tasks import Task


def test_every_task_is_in_one_stack_and_stacks_hold_tasks_of_like_size() -> None:
    rng = np.random.default_rng(0)
    tasks = [Task(np.arange(n), np.arange(3)) for n in rng.integers(10, 1000, 50)]
    groups = list(stacks._group_by_size(tasks, 3))
    assert sorted(i for group in groups for i in group) == list(range(50))
    for group in groups:
        sizes = [len(tasks[i].train) for i in group]
        assert max(sizes) <= 1.1 * min(sizes)


def test_any_prefix_of_the_shuffled_training_users_has_every_class_in_its_share() -> None:
    y = np.repeat([0, 1, 2], [70, 20, 10])
    train = np.arange(100)
    shuffled = stacks._shuffle_stratified(train, y, np.random.default_rng(0))
    np.testing.assert_array_equal(np.sort(shuffled), train)
    for stop in (10, 30, 50, 80):
        np.testing.assert_allclose(
            np.bincount(y[shuffled[:stop]], minlength=3), stop * np.array([0.7, 0.2, 0.1]), atol=1.01
        )


def test_rows_are_standardized_by_the_real_training_users_of_each_task() -> None:
    x = (np.random.default_rng(0).standard_normal((120, 4)) * np.logspace(-3, 3, 4) + 10).astype(np.float32)
    x[:, 2] = 7.0  # a constant has no spread to divide by
    x[0, 3] = 1e6  # far from all others, and in the first task alone
    table = stacks._standardize_table(x, np.arange(len(x)))
    trains = [np.arange(0, 50), np.arange(1, 47)]
    rows, is_real = stacks._pad_rows(trains, torch.device("cpu"))
    mean, spread = stacks._compute_moments(torch.tensor(table), rows, is_real)
    for t, train in enumerate(trains):
        scaler = StandardScaler().fit(table[train].astype(np.float64))
        np.testing.assert_allclose(mean[t, 0], scaler.mean_, atol=1e-6)
        np.testing.assert_allclose(spread[t, 0], scaler.scale_, rtol=1e-4)
