"""Processes that share work: each item once, the dead replaced, nobody left behind."""

from __future__ import annotations

import operator
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from types import ModuleType

import pytest

from recveil.core.errors import UsageError
from recveil.studies.engines.local import Lost, WorkQueue, run_items


@pytest.mark.thorough
def test_several_processes_share_the_items_and_end_when_it_is_broken_off(chores: ModuleType) -> None:
    answers = run_items(chores.tell_process, list(range(3_000)), workers=2)
    items, processes = [], set()
    while len(processes) < 2:
        item, (told, process) = next(answers)
        assert item == told
        items.append(item)
        processes.add(process)
    assert len(set(items)) == len(items)
    assert os.getpid() not in processes
    answers.close()
    for process in processes:
        with pytest.raises(ProcessLookupError):
            os.kill(process, 0)


@pytest.mark.thorough
def test_a_process_that_dies_is_replaced_and_its_item_tried_once_more(chores: ModuleType, tmp_path: Path) -> None:
    cells = chores.plan(data=["a"], seed=[0, 1, 2]).cells()
    found = {cell.seed: answer for cell, answer in run_items(partial(chores.deadly, tmp_path), cells, workers=1)}
    assert isinstance(found[0], Lost)
    assert "SIGKILL" in found[0].reason
    for seed in (1, 2):
        assert found[seed].result.to_json() == chores.invent(cells[seed]).to_json()


def test_a_process_that_exits_is_lost_too() -> None:
    [(_, answer)] = run_items(os._exit, [3], workers=1)
    assert answer == Lost("its process ended with exit code 3")


def test_processes_compute_on_one_thread_and_the_caller_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    names = ["OMP_NUM_THREADS", "MKL_NUM_THREADS"]
    assert [answer for _, answer in run_items(os.getenv, names, workers=1)] == ["1", "1"]
    assert [os.environ.get(name) for name in names] == ["7", None]


def test_nothing_is_begun_once_told_to_stop() -> None:
    calls = iter([True, True, True])
    found = list(run_items(operator.neg, list(range(10)), workers=1, may_start=lambda: next(calls, False)))
    assert found == [(0, 0), (1, -1), (2, -2)]
    assert list(run_items(operator.neg, [], workers=2)) == []
    with pytest.raises(UsageError, match="workers is 0"):
        next(run_items(operator.neg, [1], workers=0))


def test_a_worker_stays_with_its_group_and_others_begin_another() -> None:
    queue = WorkQueue(["a1", "a2", "a3", "b1", "b2"], lambda item: item[0])
    taken = [(worker, queue.items[queue.take_next(worker)]) for worker in (0, 1, 0, 1, 1, 0) if queue.numbers_left]
    assert taken == [(0, "a1"), (1, "b1"), (0, "a2"), (1, "b2"), (1, "a3")]
    assert queue.take_next(0) is None
    queue.put_back(3)
    assert queue.take_next(1) == 3


LOST = """
import os, signal, time
from recveil.studies.engines.local import run_items
class Gone:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.1)
if __name__ == "__main__":
    going = run_items(time.sleep, [0.01, 600], workers=1)
    next(going)
    gone = Gone()
    del gone
    print("the exception was lost", flush=True)
    next(going)
"""


def test_ctrl_c_is_heard_even_where_python_loses_it(tmp_path: Path) -> None:
    (tmp_path / "lost.py").write_text(LOST)
    done = subprocess.run([sys.executable, str(tmp_path / "lost.py")], capture_output=True, timeout=120, check=False)
    assert done.stdout == b"the exception was lost\n"
    assert done.returncode != 0
    assert done.stderr.rstrip().endswith(b"KeyboardInterrupt")
