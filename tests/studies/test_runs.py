"""A study survives: killed, resumed, with cells that fail, on a full disk, beside another run."""

from __future__ import annotations

import errno
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from recveil.core.errors import DataError, UsageError
from recveil.studies.cell_results import CellFailure
from recveil.studies.cells import Cell
from recveil.studies.engines.local import Lost
from recveil.studies.plans import Plan
from recveil.studies.runs import DiskFull, LocalEngine, Outcome, Tally, attempt_cell, name_group, run_study
from recveil.studies.store import open_store

HERE = Path(__file__).parent


def cells_in(folder: Path) -> dict[str, bytes]:
    """Every file among the cells, hidden or not."""
    return {path.name: path.read_bytes() for path in (folder / "cells").iterdir()}


def killed(command: list[str], seconds: float, env: dict[str, str]) -> bool:
    """Start, and after so many seconds kill the whole process group; whether it was still at work."""
    started = subprocess.Popen(command, start_new_session=True, env=env, stderr=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        _, said = started.communicate(timeout=seconds)
        assert started.returncode == 0, said.decode()
        return False
    except subprocess.TimeoutExpired:
        os.killpg(started.pid, signal.SIGKILL)
        started.communicate()
        return True


def resumed(command: list[str], kills: int, longest: float, env: dict[str, str]) -> int:
    """Kill it so many times at random moments, then let it end; how often it was killed at work."""
    moments = random.Random(kills)
    hits = sum(killed(command, moments.uniform(0, longest), env) for _ in range(kills))
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return hits


@pytest.mark.thorough
def test_killed_and_resumed_is_the_same_as_never_killed(tmp_path: Path, chores: ModuleType) -> None:
    run_study(chores.plan(), tmp_path / "whole", chores.Inline(), work=chores.quick)
    command = [sys.executable, str(HERE / "chores.py"), str(tmp_path / "torn")]
    assert resumed(command, 3, 1.5, dict(os.environ)) > 0
    assert cells_in(tmp_path / "torn") == cells_in(tmp_path / "whole")
    assert len(cells_in(tmp_path / "torn")) == 20


def gone(group: int) -> bool:
    """Whether no process of this group is left."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.mark.thorough
def test_an_interrupt_ends_it_and_every_process_of_it(tmp_path: Path, chores: ModuleType) -> None:
    command = [sys.executable, str(HERE / "chores.py"), str(tmp_path / "out"), "endless"]
    started = subprocess.Popen(command, start_new_session=True, stderr=subprocess.PIPE)
    while not list((tmp_path / "out").glob("cells/*.json")):
        time.sleep(0.01)
    os.killpg(started.pid, signal.SIGINT)
    _, said = started.communicate(timeout=60)  # it would wait for ever for a process that was left behind
    assert b"KeyboardInterrupt" in said
    assert any(gone(started.pid) or time.sleep(0.05) for _ in range(200))  # Python's keeper of resources goes last
    assert run_study(chores.plan(), tmp_path / "out", chores.Inline(), work=chores.quick).left == 0


PLAN = """
title = "to be killed"
kind = "attribute"
[grid]
data = ["{data}"]
model = [{{ name = "bprmf", epochs = 5, embedding_size = 8 }}]
defense = ["none", "noise", "ldp", "adversarial"]
target = ["gender", "handedness"]
panel = ["logistic"]
seed = [{seeds}]
[settings]
device = "cpu"
"""


@pytest.mark.slow
def test_fifty_kills_of_the_command_lose_nothing(tmp_path: Path, tiny: str) -> None:
    plan = tmp_path / "kill.toml"
    plan.write_text(PLAN.format(data=tiny, seeds=", ".join(map(str, range(5)))))
    start_up = "from recveil.cli.app import main; main()"
    command = [sys.executable, "-c", start_up, "study", "run", str(plan), "--workers", "2", "--out"]
    env = dict(os.environ)
    subprocess.run([*command, str(tmp_path / "whole")], env=env, check=True, capture_output=True)
    hits, at_work, torn, moments = 0, 0, tmp_path / "torn", random.Random(50)
    while hits < 50:
        before = len(list(torn.rglob("*")))
        started = subprocess.Popen([*command, str(torn)], start_new_session=True, stderr=subprocess.DEVNULL)
        while hits % 5 and started.poll() is None and len(list(torn.rglob("*"))) <= before:
            time.sleep(0.02)  # four of five kills fall after something new was written, the others anywhere
        time.sleep(moments.uniform(0, 1.5))
        if started.poll() is not None:
            assert started.returncode == 0
            shutil.rmtree(torn)  # it came to its end: begin anew, so that every kill falls on work
            continue
        os.killpg(started.pid, signal.SIGKILL)
        started.wait()
        hits, at_work = hits + 1, at_work + (len(list(torn.rglob("*"))) > before)
        seen = cells_in(torn) if (torn / "cells").is_dir() else {}
        assert all(content.endswith(b"\n}\n") for name, content in seen.items() if not name.startswith("."))
    assert at_work >= 30
    assert subprocess.run([*command, str(torn)], env=env, capture_output=True).returncode == 0
    assert cells_in(torn) == cells_in(tmp_path / "whole")
    assert len(cells_in(torn)) == 40
    assert not (torn / "failures").exists() or not list((torn / "failures").iterdir())


def test_only_what_is_missing_is_done(tmp_path: Path, chores: ModuleType) -> None:
    progress: list[int] = []
    folder = tmp_path / "out"
    first = run_study(chores.plan(seed=[0, 1]), folder, chores.Inline(), work=chores.quick)
    assert (first.before, first.done) == (0, 4)
    before = {name: (folder / "cells" / name).stat().st_mtime_ns for name in cells_in(folder)}
    more = chores.plan(seed=[0, 1, 2])
    tally = run_study(
        more, folder, chores.Inline(), work=chores.quick, on_progress=lambda t: progress.append(t.finished)
    )
    assert (tally.before, tally.done, tally.total) == (4, 2, 6)
    assert progress == [5, 6]
    assert tally.to_progress(more, folder).model_dump() == {
        "plan": "chores", "size": "full", "folder": str(folder), "cells": 6, "done": 6, "failed": 0, "left": 0
    }  # fmt: skip
    assert {name: (folder / "cells" / name).stat().st_mtime_ns for name in before} == before
    assert open_store(folder).read_plan().cells()[-1].id == more.cells()[-1].id


def failing(cache: Path, cell: Cell) -> Outcome:
    return Outcome(failure=CellFailure(error="ValueError: x", traceback="T", foreseen=cell.seed > 0))


def test_failures_are_kept_counted_and_tried_again(tmp_path: Path, chores: ModuleType) -> None:
    folder, plan = tmp_path / "out", chores.plan(data=["a"], seed=[0, 1, 2])
    tally = run_study(plan, folder, chores.Inline(), work=failing)
    assert (tally.failed, tally.by_fault, tally.done) == (3, 1, 0)
    store = open_store(folder)
    assert len(store.failed_ids()) == 3
    assert store.read_failure(plan.cells()[0].id).error == "ValueError: x"
    tally = run_study(plan, folder, chores.Inline(), work=chores.quick)
    assert (tally.failed, tally.done) == (0, 3)
    assert store.failed_ids() == set()


class LossyEngine:
    """An engine whose process dies at seed 0."""

    name = "lossy"

    def run(self, work: Any, cells: Any, *, may_start: Any) -> Any:
        yield from ((cell, work(cell) if cell.seed else Lost("it was killed")) for cell in cells)


def test_a_cell_whose_process_keeps_dying_is_a_failure_and_the_rest_goes_on(tmp_path: Path, chores: ModuleType) -> None:
    plan = chores.plan(data=["a"], seed=[0, 1, 2])
    tally = run_study(plan, tmp_path / "out", LossyEngine(), work=chores.quick)
    assert (tally.done, tally.failed, tally.by_fault) == (2, 1, 1)
    assert "each time it was killed" in open_store(tmp_path / "out").read_failure(plan.cells()[0].id).error


def test_two_runs_at_once_on_one_folder(tmp_path: Path, chores: ModuleType) -> None:
    plan = chores.plan(data=["a"], seed=[0])

    class Meanwhile(chores.Inline):  # type: ignore[name-defined,misc]
        def run(self, *args: Any, **more: Any) -> Any:
            with pytest.raises(UsageError, match="Another run is writing into"):
                run_study(plan, tmp_path / "out", chores.Inline(), work=chores.quick)
            return super().run(*args, **more)

    assert run_study(plan, tmp_path / "out", Meanwhile(), work=chores.quick).done == 1


def test_nothing_is_begun_after_the_limit(tmp_path: Path, chores: ModuleType) -> None:
    tally = run_study(chores.plan(), tmp_path / "out", chores.Inline(), work=chores.quick, max_seconds=0.03)
    assert 0 < tally.done < 20
    assert tally.left == 20 - tally.done


def full(cache: Path, cell: Cell) -> Outcome:
    return Outcome(disk_full=DiskFull(errno.ENOSPC, str(cache)))


def test_a_disk_that_is_full_for_a_worker_ends_the_study(tmp_path: Path, chores: ModuleType) -> None:
    with pytest.raises(OSError, match="No space left on device") as caught:
        run_study(chores.plan(), tmp_path / "out", chores.Inline(), work=full)
    assert caught.value.errno == errno.ENOSPC
    assert open_store(tmp_path / "out").failed_ids() == set()


@pytest.fixture
def small_disk(tmp_path: Path) -> Any:
    """A disk of 64 kB, where one may be mounted."""
    place = tmp_path / "disk"
    place.mkdir()
    options = ["-t", "tmpfs", "-o", "size=64k", "tmpfs", str(place)]
    if shutil.which("mount") is None or subprocess.run(["mount", *options], capture_output=True).returncode:
        pytest.skip("no disk can be mounted here")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_full_disk_corrupts_nothing(small_disk: Path, chores: ModuleType, tmp_path: Path) -> None:
    run_study(chores.plan(), tmp_path / "whole", chores.Inline(), work=chores.quick)
    with pytest.raises(DataError, match="no room left"):
        run_study(chores.plan(), small_disk / "out", chores.Inline(), work=chores.quick)
    kept, whole = cells_in(small_disk / "out"), cells_in(tmp_path / "whole")
    assert 0 < len(kept) < 20
    assert kept.items() <= whole.items()
    subprocess.run(["mount", "-o", "remount,size=4m", str(small_disk)], check=True)
    run_study(chores.plan(), small_disk / "out", chores.Inline(), work=chores.quick)
    assert cells_in(small_disk / "out") == whole


def test_an_attempt_never_raises(
    make_cell: Callable[..., Cell], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = attempt_cell(tmp_path, make_cell())
    assert good.result is not None
    assert good.timing.seconds["all"] > 0
    assert good.timing.machine["device"] == "cpu"
    wrong = attempt_cell(tmp_path, make_cell(surface=["nonsense"])).failure
    assert wrong is not None
    assert wrong.foreseen
    assert "No surface is called 'nonsense'" in wrong.error
    assert "Traceback" in wrong.traceback

    def raise_fault(*_: object) -> None:
        raise ZeroDivisionError("never thought of")

    monkeypatch.setattr("recveil.studies.measurement.run_cell", raise_fault)
    fault = attempt_cell(tmp_path, make_cell()).failure
    assert fault is not None
    assert not fault.foreseen

    def fill_disk(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space", "/somewhere")

    monkeypatch.setattr("recveil.studies.measurement.run_cell", fill_disk)
    assert attempt_cell(tmp_path, make_cell()).disk_full == DiskFull(errno.ENOSPC, "/somewhere")


def test_cells_of_one_model_and_seed_are_a_group(make_cell: Callable[..., Cell]) -> None:
    group = name_group(make_cell())
    assert group == name_group(make_cell(defense=["noise"], target=["age"], panel=["full"]))
    assert group != name_group(make_cell(seed=[1]))
    assert group != name_group(make_cell(data=["b"]))


def test_the_time_that_remains() -> None:
    tally = Tally(10, before=2)
    assert tally.remaining is None
    tally.done, tally.failed, tally.started = 3, 1, time.monotonic() - 8
    assert tally.left == 4
    assert tally.remaining == pytest.approx(8.0, abs=0.5)


def test_importing_the_engine_costs_no_torch() -> None:
    names = "plans, store, runs, engines.local"
    code = "import sys\n" + "\n".join(f"import recveil.studies.{name}" for name in names.split(", "))
    code += "\nprint('torch' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "False"


def test_a_plan_that_cannot_be_run_leaves_no_folder(tmp_path: Path) -> None:
    grid = {"data": ["demo"], "model": ["bprmf"], "defense": ["none"], "target": ["height"], "panel": ["fast"]}
    plan = Plan.parse({"title": "t", "kind": "attribute", "grid": {**grid, "seed": [0]}}, name="bad")
    with pytest.raises(UsageError, match="height"):
        run_study(plan, tmp_path / "out", LocalEngine())
    assert not (tmp_path / "out").exists()
