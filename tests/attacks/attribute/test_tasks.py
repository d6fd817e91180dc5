"""Running tasks: threads and processes give the same answers, in order, with progress."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from sklearn.exceptions import ConvergenceWarning

from recveil.attacks.attribute.tasks import Task, run_tasks
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
