"""Engines: the same tree of merges and the same order on any number of workers; errors are raised."""

from __future__ import annotations

import threading
from dataclasses import dataclass

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_info, threadpool_limits

from recveil.core.progress import RowCount, report_progress
from recveil.streaming.engines import ThreadEngine, merge_in_tree, read_ahead


@dataclass(frozen=True)
class Piece:
    number: int
    rows: int = 10


def levels(n: int) -> str:
    """What merging neighbors level by level, as a cluster does, makes of n states."""
    states = [str(i) for i in range(n)]
    while len(states) > 1:
        states = [
            "(" + "+".join(states[i : i + 2]) + ")" if i + 1 < len(states) else states[i]
            for i in range(0, len(states), 2)
        ]
    return states[0]


@settings(deadline=None, max_examples=70)
@given(st.integers(1, 70))
def test_the_tree_depends_on_the_number_of_states_alone(n: int) -> None:
    assert merge_in_tree((str(i) for i in range(n)), lambda a, b: f"({a}+{b})") == levels(n)


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_threads_merge_in_the_order_of_the_tasks(workers: int) -> None:
    tasks = [Piece(i) for i in range(23)]
    seen: list[int] = []

    def report(items, label, total):
        assert (label, total) == ("working", 230)
        for item in items:
            assert isinstance(item, RowCount)
            seen.append(item)
            yield item

    with report_progress(report):
        got = ThreadEngine(workers).reduce(lambda t: str(t.number), tasks, lambda a, b: f"({a}+{b})", "working")
    assert got == levels(23)
    assert sum(seen) == 230


def test_errors_of_a_task_are_raised() -> None:
    def work(task: Piece) -> None:
        if task.number == 3:
            raise ValueError("task 3")

    with pytest.raises(ValueError, match="task 3"):
        ThreadEngine(2).run_all(work, [Piece(i) for i in range(9)], "working")


def test_items_are_made_ahead_in_another_thread_and_errors_come_through() -> None:
    def items():
        yield threading.get_ident()
        yield 2
        raise ValueError("no third")

    got = read_ahead(items())
    assert next(got) != threading.get_ident()
    assert next(got) == 2
    with pytest.raises(ValueError, match="no third"):
        next(got)


def test_a_consumer_that_stops_early_leaves_no_thread() -> None:
    before = threading.active_count()
    got = read_ahead(iter(range(10**9)))
    assert next(got) == 0
    got.close()  # type: ignore[attr-defined]
    assert threading.active_count() == before


@pytest.mark.parametrize("workers", [1, 2])
def test_libraries_compute_on_one_thread_in_a_task(workers: int) -> None:
    def count_threads(task: Piece) -> set[int]:
        pools = [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]
        return {torch.get_num_threads(), *pools}

    with threadpool_limits(2):
        counted = ThreadEngine(workers).reduce(count_threads, [Piece(i) for i in range(3)], set.union, "counting")
    assert counted == {1}
