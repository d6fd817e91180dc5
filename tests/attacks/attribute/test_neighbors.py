"""Nearest neighbors of all tasks from one search, against scikit-learn's."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

from recveil.attacks.attribute import neighbors
from recveil.attacks.attribute.neighbors import Neighbors
from recveil.attacks.attribute.tasks import Task
from recveil.testing.worlds import make_planted_leak


def guess(x: np.ndarray, y: np.ndarray, tasks: list[Task], **options: int) -> list[np.ndarray]:
    return Neighbors(device="cpu", **options).guess(x, y, int(y.max()) + 1, tasks, rng=np.random.default_rng(0))


@pytest.mark.parametrize("share", [0.05, 0.4, 0.8])
def test_votes_are_those_of_scikit_learn_in_every_task(share: float) -> None:
    """Classes are of equal size in each task, so that weighted votes are plain ones; with 5 % many search again."""
    x, secret = make_planted_leak(900, 3, 2, 2.0, rng=np.random.default_rng(0))
    y, rng, tasks = secret.codes, np.random.default_rng(1), []
    for _ in range(3):
        per_class = [rng.permutation(np.flatnonzero(y == k)) for k in (0, 1)]
        n = int(share * min(map(len, per_class)))
        train = np.sort(np.concatenate([rows[:n] for rows in per_class]))
        tasks.append(Task(train, np.setdiff1d(np.arange(len(x)), train)))
    known = np.unique(np.concatenate([task.train for task in tasks]))
    z = StandardScaler().fit(x[known]).transform(x).astype(np.float32)
    for task, found in zip(tasks, guess(x, y, tasks, k=15), strict=True):
        wanted = KNeighborsClassifier(15).fit(z[task.train], y[task.train]).predict_proba(z[task.test])
        np.testing.assert_allclose(found, wanted, atol=1e-6)


def test_an_accelerator_finds_the_same_neighbors() -> None:
    rng = np.random.default_rng(0)
    table, rows = (rng.standard_normal((n, 5)).astype(np.float32) for n in (300, 2_500))
    wanted = neighbors.NearestNeighbors(n_neighbors=20, algorithm="brute").fit(table).kneighbors(rows)[1]
    found = neighbors.search_on_device(table, rows, 20, torch.device("cpu"))
    assert (found == wanted).mean() > 0.999  # equal but for rounding of distances that are nearly the same


def test_neighbors_are_at_most_all_users() -> None:
    [found] = guess(np.eye(4), np.array([0, 0, 1, 1]), [Task(np.arange(4), np.arange(4))])
    np.testing.assert_allclose(found, 0.5)


def test_a_rare_class_is_guessed_as_often_as_it_deserves() -> None:
    x, y = np.random.default_rng(0).standard_normal((1500, 2)), np.repeat([0, 1, 0], [900, 100, 500])
    [found] = guess(x, y, [Task(np.arange(1000), np.arange(1000, 1500))])
    assert 0.1 < found.argmax(1).mean() < 0.9


def test_of_many_users_a_sample_with_every_class_votes() -> None:
    x, y = np.random.default_rng(0).standard_normal((2000, 2)), np.zeros(2000, dtype=np.int64)
    y[7], x[7] = 1, 50.0
    x[1999] = 50.0
    [found] = guess(x, y, [Task(np.arange(1900), np.arange(1900, 2000))], k=5, max_users=100)
    assert found[-1].argmax() == 1
    assert found[:-1].argmax(1).mean() < 0.5


def test_a_table_is_searched_once_for_all_repeats(monkeypatch: pytest.MonkeyPatch) -> None:
    searches = []
    search = neighbors.NearestNeighbors.kneighbors
    monkeypatch.setattr(
        neighbors.NearestNeighbors, "kneighbors", lambda *given, **kw: searches.append(1) or search(*given, **kw)
    )
    x, secret = make_planted_leak(300, 3, 2, 2.0, rng=np.random.default_rng(5))
    order = np.random.default_rng(0).permutation(300)
    halves = [[Task(order[a::2], order[1 - a :: 2]) for a in (0, 1)], [Task(order[:150], order[150:])]]
    halves[1].append(Task(order[150:], order[:150]))
    first, second = (guess(x, secret.codes, tasks) for tasks in halves)
    assert len(searches) == 1
    assert not np.array_equal(first[0], second[0])
    x[0] += 1e-3
    guess(x, secret.codes, halves[0])
    assert len(searches) == 2


def test_a_table_of_two_blocks_is_searched_once_for_all_repeats(monkeypatch: pytest.MonkeyPatch) -> None:
    """The static attacker's users are in two tables, and so in two blocks."""
    searches = []
    search = neighbors.NearestNeighbors.kneighbors
    monkeypatch.setattr(
        neighbors.NearestNeighbors, "kneighbors", lambda *given, **kw: searches.append(1) or search(*given, **kw)
    )
    monkeypatch.setattr(neighbors, "BLOCK_ROWS", 200)
    x, secret = make_planted_leak(300, 3, 2, 2.0, rng=np.random.default_rng(6))
    tasks = [Task(np.arange(a, 300, 2), np.arange(1 - a, 300, 2)) for a in (0, 1)]
    first, again = (guess(x, secret.codes, tasks) for _ in range(2))
    assert len(searches) == 2
    np.testing.assert_array_equal(first, again)
