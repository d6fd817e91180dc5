"""Batched logistic regression and perceptrons: the same as one by one, and as scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from recveil.attacks.attribute import stacks
from recveil.attacks.attribute.neural import Logistic, Perceptron
from recveil.attacks.attribute.tasks import Task
from recveil.testing.worlds import make_injected_label, make_planted_leak


def world(n: int, d: int, K: int, size: float) -> tuple[np.ndarray, np.ndarray]:
    """A planted leak in which the first class is half as large, and the columns are of different scales."""
    rng = np.random.default_rng(n + d + K)
    x, secret = make_planted_leak(n, d, K, size, rng=rng)
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


@pytest.mark.parametrize("size", [1, 500, 2000])
def test_doing_the_tasks_in_several_stacks_changes_nothing(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = world(200, 4, 3, 1.5)
    tasks = mixed_tasks(len(x))
    whole = Logistic(device="cpu").guess(x, y, 3, tasks, rng=np.random.default_rng(0))
    monkeypatch.setattr(stacks, "MAX_NUMBERS_HELD", size)
    assert len(list(stacks._group_by_size(tasks, 4))) >= 3
    parts = Logistic(device="cpu").guess(x, y, 3, tasks, rng=np.random.default_rng(0))
    for one, two in zip(whole, parts, strict=True):
        np.testing.assert_allclose(one, two, atol=2e-4)


@pytest.mark.parametrize("attack", [Logistic(device="cpu"), Perceptron(device="cpu")])
@pytest.mark.parametrize(("scale", "offset"), [(2.0**-90, 0.0), (2.0**90, 0.0), (1.0, 1000.0)])
def test_tiny_huge_and_far_off_numbers_are_as_good_as_others(attack: object, scale: float, offset: float) -> None:
    x, secret = make_planted_leak(400, 4, 2, 3.0, rng=np.random.default_rng(0))
    task = Task(np.arange(200), np.arange(200, 400))
    odd = (x.astype(np.float64) * scale + offset).astype(np.float32)
    guess = attack.guess(odd, secret.codes, 2, [task], rng=np.random.default_rng(0))[0]
    assert (guess.argmax(1) == secret.codes[200:]).mean() > 0.85


def test_a_perceptron_learns_xor_and_a_line_does_not() -> None:
    x, secret = make_injected_label("parity", n=1200, d=2, rng=np.random.default_rng(0))
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
    x, secret = make_planted_leak(600, 3, 3, 5.0, rng=np.random.default_rng(0))
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
    """On average: with sixty known users of the rare class, one task alone may miss by a fifth."""
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((1000, 3)).astype(np.float32), np.repeat([0, 1], [900, 100])
    x[y == 1, 0] += 1.5
    tasks = [Task(np.sort(rng.permutation(1000)[:600]), np.arange(1000)) for _ in range(10)]
    for attack in (Logistic(device="cpu"), Perceptron(device="cpu")):
        guesses = attack.guess(x, y, 2, tasks, rng=np.random.default_rng(0))
        recall = [np.mean([(g.argmax(1)[y == k] == k).mean() for g in guesses]) for k in (0, 1)]
        assert abs(recall[0] - recall[1]) < 0.2


@pytest.mark.thorough
@pytest.mark.parametrize("attack", [Logistic(device="cpu"), Perceptron(device="cpu"), Perceptron((9, 4), device="cpu")])
def test_the_same_seed_gives_the_same_bytes_however_many_threads(
    attack: Logistic | Perceptron, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, y = world(300, 4, 3, 1.5)
    tasks = mixed_tasks(len(x)) * 2
    monkeypatch.setattr(stacks, "CACHED_NUMBERS", 1 << 13)
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


def test_no_global_generator_is_used() -> None:
    x, y = world(100, 3, 2, 1.0)
    before = torch.random.get_rng_state()
    Perceptron(device="cpu", epochs=2).guess(x, y, 2, mixed_tasks(len(x)), rng=np.random.default_rng(0))
    assert torch.equal(before, torch.random.get_rng_state())
