"""Batched logistic regression and perceptrons: the same as one by one, and as scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from recveil.attacks.attribute import neural
from recveil.attacks.attribute.neural import Logistic, Perceptron
from recveil.attacks.attribute.tasks import Task
from recveil.testing.worlds import injected_label, planted_leak


def world(n: int, d: int, K: int, size: float) -> tuple[np.ndarray, np.ndarray]:
    """A planted leak in which the first class is half as large, and the columns are of different scales."""
    rng = np.random.default_rng(n + d + K)
    x, secret = planted_leak(n, d, K, size, rng=rng)
    keep = (secret.codes != 0) | (rng.random(n) < 0.5)
    x[:, 0] += 3 * x[:, 1]
    return (x * np.logspace(-3, 3, d) + 10)[keep].astype(np.float32), secret.codes[keep]


def oracle(x: np.ndarray, y: np.ndarray, task: Task, C: float = 1.0) -> np.ndarray:
    scaler = StandardScaler().fit(x[task.train].astype(np.float64))
    model = LogisticRegression(C=C, class_weight="balanced", max_iter=5000, tol=1e-10)
    model.fit(scaler.transform(x[task.train].astype(np.float64)), y[task.train])
    return np.asarray(model.predict_proba(scaler.transform(x[task.test].astype(np.float64))))


def mixed_tasks(n: int) -> list[Task]:
    rows = np.random.default_rng(n).permutation(n)
    cuts = [(0, n // 2), (n // 4, n), (0, n // 3), (n // 2, n - 1), (0, n - 5)]
    return [Task(rows[a:b], np.concatenate([rows[:a], rows[b:]])) for a, b in cuts]


@pytest.mark.parametrize(("K", "C"), [(2, 1.0), (2, 0.01), (3, 1.0), (5, 1.0), (3, 0.01)])
def test_logistic_regression_is_scikit_learn_s_whatever_the_sizes(K: int, C: float) -> None:
    x, y = world(240, 5, K, 1.5)
    tasks = mixed_tasks(len(x))
    guesses = Logistic(C=C, device="cpu").guess(x, y, K, tasks, rng=np.random.default_rng(0))
    for task, guess in zip(tasks, guesses, strict=True):
        np.testing.assert_allclose(guess, oracle(x, y, task, C), atol=1e-3)


@pytest.mark.parametrize("room", [1, 500, 2000])
def test_doing_the_tasks_in_several_stacks_changes_nothing(room: int, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = world(200, 4, 3, 1.5)
    tasks = mixed_tasks(len(x))
    whole = Logistic(device="cpu").guess(x, y, 3, tasks, rng=np.random.default_rng(0))
    monkeypatch.setattr(neural, "ROOM", room)
    assert len(list(neural._alike(tasks, 4))) >= 3
    parts = Logistic(device="cpu").guess(x, y, 3, tasks, rng=np.random.default_rng(0))
    for one, two in zip(whole, parts, strict=True):
        np.testing.assert_allclose(one, two, atol=2e-4)


def test_every_task_is_in_one_stack_and_stacks_hold_tasks_of_like_size() -> None:
    rng = np.random.default_rng(0)
    tasks = [Task(np.arange(n), np.arange(3)) for n in rng.integers(10, 1000, 50)]
    groups = list(neural._alike(tasks, 3))
    assert sorted(i for group in groups for i in group) == list(range(50))
    for group in groups:
        sizes = [len(tasks[i].train) for i in group]
        assert max(sizes) <= 1.1 * min(sizes)


def test_any_prefix_of_the_spread_training_users_has_every_class_in_its_share() -> None:
    y = np.repeat([0, 1, 2], [70, 20, 10])
    train = np.arange(100)
    spread = neural._spread(train, y, np.random.default_rng(0))
    np.testing.assert_array_equal(np.sort(spread), train)
    for stop in (10, 30, 50, 80):
        np.testing.assert_allclose(
            np.bincount(y[spread[:stop]], minlength=3), stop * np.array([0.7, 0.2, 0.1]), atol=1.01
        )


@pytest.mark.parametrize("attack", [Logistic(device="cpu"), Perceptron(device="cpu")])
@pytest.mark.parametrize(("scale", "offset"), [(2.0**-90, 0.0), (2.0**90, 0.0), (1.0, 1000.0)])
def test_tiny_huge_and_far_off_numbers_are_as_good_as_others(attack: object, scale: float, offset: float) -> None:
    x, secret = planted_leak(400, 4, 2, 3.0, rng=np.random.default_rng(0))
    task = Task(np.arange(200), np.arange(200, 400))
    odd = (x.astype(np.float64) * scale + offset).astype(np.float32)
    guess = attack.guess(odd, secret.codes, 2, [task], rng=np.random.default_rng(0))[0]
    assert (guess.argmax(1) == secret.codes[200:]).mean() > 0.85


def test_a_perceptron_learns_xor_and_a_line_does_not() -> None:
    x, secret = injected_label("parity", n=1200, d=2, rng=np.random.default_rng(0))
    task = Task(np.arange(800), np.arange(800, 1200))
    found = {
        attack: (
            attack.guess(x, secret.codes, 2, [task], rng=np.random.default_rng(0))[0].argmax(1) == secret.codes[800:]
        )
        for attack in (Perceptron(device="cpu"), Perceptron(hidden=(32, 16), device="cpu"), Logistic(device="cpu"))
    }
    one, two, line = (hits.mean() for hits in found.values())
    assert min(one, two) > 0.9
    assert line < 0.6


def test_perceptrons_come_back_in_the_order_of_the_tasks() -> None:
    """Each task teaches another truth (labels shifted by its number among tables side by side)."""
    x, secret = planted_leak(600, 3, 3, 5.0, rng=np.random.default_rng(0))
    sizes, start, tasks = [150, 60, 240, 120], 0, []
    y = secret.codes.copy()
    for number, n in enumerate(sizes):
        rows = np.arange(start, start + n)
        y[rows] = (secret.codes[rows] + number) % 3
        tasks.append(Task(rows, np.arange(570, 600)))
        start += n
    guesses = Perceptron(device="cpu", epochs=40).guess(x, y, 3, tasks, rng=np.random.default_rng(0))
    for number, guess in enumerate(guesses):
        assert (guess.argmax(1) == (secret.codes[570:] + number) % 3).mean() > 0.8


def test_balance_gives_a_rare_class_its_half_of_the_guesses() -> None:
    """On average: with sixty known users of the rare class, one deal alone may miss by a fifth."""
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((1000, 3)).astype(np.float32), np.repeat([0, 1], [900, 100])
    x[y == 1, 0] += 1.5
    tasks = [Task(np.sort(rng.permutation(1000)[:600]), np.arange(1000)) for _ in range(10)]
    for attack in (Logistic(device="cpu"), Perceptron(device="cpu")):
        guesses = attack.guess(x, y, 2, tasks, rng=np.random.default_rng(0))
        recall = [np.mean([(g.argmax(1)[y == k] == k).mean() for g in guesses]) for k in (0, 1)]
        assert abs(recall[0] - recall[1]) < 0.2


@pytest.mark.parametrize("attack", [Logistic(device="cpu"), Perceptron(device="cpu"), Perceptron((9, 4), device="cpu")])
def test_the_same_seed_gives_the_same_bytes_however_many_threads(
    attack: Logistic | Perceptron, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, y = world(300, 4, 3, 1.5)
    tasks = mixed_tasks(len(x)) * 2
    monkeypatch.setattr(neural, "CACHE", 1 << 13)
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 2):
            torch.set_num_threads(threads)
            found.append(attack.guess(x, y, 3, tasks, rng=np.random.default_rng(0)))
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    for other in found[1:]:
        assert all(np.array_equal(one, two) for one, two in zip(found[0], other, strict=True))


def test_rows_are_standardized_by_the_real_training_users_of_each_task() -> None:
    x, _ = world(120, 4, 2, 1.0)
    x[:, 2] = 7.0  # a constant has no spread to divide by
    x[0, 3] = 1e6  # far from all others, and in the first task alone
    table = neural._tame(x)
    trains = [np.arange(0, 50), np.arange(1, 47)]
    rows, real = neural._pad(trains, torch.device("cpu"))
    mean, spread = neural._moments(torch.tensor(table), rows, real)
    for t, train in enumerate(trains):
        scaler = StandardScaler().fit(table[train].astype(np.float64))
        np.testing.assert_allclose(mean[t, 0], scaler.mean_, atol=1e-6)
        np.testing.assert_allclose(spread[t, 0], scaler.scale_, rtol=1e-4)


def test_no_global_generator_is_touched() -> None:
    x, y = world(100, 3, 2, 1.0)
    before = torch.random.get_rng_state()
    Perceptron(device="cpu", epochs=2).guess(x, y, 2, mixed_tasks(len(x)), rng=np.random.default_rng(0))
    assert torch.equal(before, torch.random.get_rng_state())
