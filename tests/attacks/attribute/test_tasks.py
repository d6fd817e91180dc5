"""Running tasks: threads and processes give the same answers, in order, with progress."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from sklearn.exceptions import ConvergenceWarning

from recveil.attacks.attribute.tasks import Task, find_enclosing_tasks, run_tasks, share_fits
from recveil.core.progress import report_progress

TASKS = [Task(np.arange(2), np.array([n])) for n in range(3)]


def solve(task: Task, seed: int) -> np.ndarray:
    warnings.warn("not converged", ConvergenceWarning, stacklevel=1)
    return np.array([task.test[0], seed])


def run(label: str = "toy") -> np.ndarray:
    return np.array(run_tasks(solve, TASKS, size=4, label=label, rng=np.random.default_rng(0)))


@pytest.mark.thorough
def test_processes_answer_as_threads_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    threads = run()
    assert threads[:, 0].tolist() == [0, 1, 2]
    assert len(set(threads[:, 1])) == 3
    monkeypatch.setattr("recveil.attacks.attribute.tasks.MAX_THREADS", 0)
    np.testing.assert_array_equal(run(), threads)


def test_progress_counts_the_tasks() -> None:
    reports: list[tuple[str, int | None]] = []

    def note(items, label, total):  # type: ignore[no-untyped-def]
        reports.append((label, total))
        return items

    with report_progress(note):
        run("Toy")
    assert reports == [("attacking: toy", 3)]


def test_tasks_that_learn_from_the_same_users_share_a_fit() -> None:
    tasks = [Task(np.array([0, 1]), np.array([2])), Task(np.array([2]), np.array([0, 3])), TASKS[2]]
    tasks.append(Task(np.array([0, 1]), np.array([5, 2])))
    fitted: list[list[int]] = []

    def guess(merged):  # type: ignore[no-untyped-def]
        fitted.extend(task.train.tolist() for task in merged)
        return [np.stack([task.test, task.test + len(task.train)], 1) for task in merged]

    guesses = share_fits(guess, tasks)
    assert fitted == [[0, 1], [2]]
    for task, rows in zip(tasks, guesses, strict=True):
        np.testing.assert_array_equal(rows, np.stack([task.test, task.test + len(task.train)], 1))


def test_an_inner_task_is_enclosed_by_its_own_fold_alone() -> None:
    """Folds 1 and 2 are known in folds 0, 3 and 4; the one that attacks neither 3 nor 4 is fold 0."""
    fold = np.arange(50) % 5
    outers = [Task(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(5)]
    inner = Task(np.flatnonzero((fold == 1) | (fold == 2)), np.flatnonzero(fold >= 3))
    for order in (outers, outers[::-1]):
        enclosing = find_enclosing_tasks([*order, inner])
        assert enclosing[:5] == [0, 1, 2, 3, 4]
        assert order[enclosing[5]] is outers[0]
