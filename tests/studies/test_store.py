"""The folder of results: whole files only, one writer, and a clear word where it is not what it should be."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType

import pytest

from recveil.core.errors import DataError, UsageError
from recveil.studies.plans import Plan
from recveil.studies.store import Store, create_store, describe_plan, open_store


@pytest.fixture
def store(tmp_path: Path, chores: ModuleType) -> Store:
    made = create_store(tmp_path / "deep" / "out", chores.plan())
    describe_plan(made, chores.plan())
    return made


def test_what_is_written_is_read(store: Store, chores: ModuleType) -> None:
    one, two = chores.plan().cells()[:2]
    store.write_cell(one.id, {"cell": one.to_dict(), "records": []}, {"seconds": {"all": 1.0}})
    store.write_failure(two.id, {"cell": two.to_dict(), "error": "E", "traceback": "T"})
    again = open_store(store.folder)
    assert again.finished_ids() == {one.id}
    assert again.failed_ids() == {two.id}
    assert again.read_cell(one.id)["cell"] == one.to_dict()
    assert again.read_failure(two.id)["error"] == "E"
    assert again.read_timing(one.id) == {"seconds": {"all": 1.0}}
    assert again.read_timing(two.id) == {}
    assert [c.id for c in again.read_plan().cells()] == [c.id for c in chores.plan().cells()]


def test_a_success_takes_the_failure_away(store: Store) -> None:
    store.write_failure("x", {})
    store.write_cell("x", {}, {})
    assert store.failed_ids() == set()
    assert not list((store.folder / "failures").iterdir())


def test_only_one_run_at_a_time(store: Store) -> None:
    with (
        store.hold_lock(),
        pytest.raises(UsageError, match="Another run is writing into"),
        Store(store.folder).hold_lock(),
    ):
        pass
    with store.hold_lock():
        pass


def test_what_a_killed_run_left_is_swept_and_nothing_else(store: Store) -> None:
    left = [store.folder / "cells" / ".x.json.abc.json", store.folder / ".study.json.abc.json"]
    half = store.folder / "releases" / ".half"
    kept = store.folder / ".gitignore"
    for path in (*left, kept):
        path.write_text("{")
    half.mkdir()
    (half / "model.json").write_text("{")
    store.write_failure("x", {})
    (store.folder / "cells" / "x.json").write_text("{}")  # killed between writing the cell and removing the failure
    assert store.finished_ids() == {"x"}
    assert store.failed_ids() == set()
    with store.hold_lock():
        assert not any(path.exists() for path in (*left, half))
        assert kept.exists()
        assert not (store.folder / "failures" / "x.json").exists()


def test_folders_that_are_something_else(tmp_path: Path, store: Store, chores: ModuleType) -> None:
    with pytest.raises(UsageError, match="is not a folder of results: it has no study.json"):
        open_store(tmp_path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").touch()
    with pytest.raises(UsageError, match="holds other things than a study"):
        create_store(tmp_path / "mine", chores.plan())
    half = create_store(tmp_path / "half", chores.plan())  # killed before study.json was there
    assert create_store(half.folder, chores.plan()) == half
    with pytest.raises(UsageError, match="it is a file"):
        create_store(tmp_path / "mine" / "thesis.txt", chores.plan())
    about = json.loads((store.folder / "study.json").read_text())
    (store.folder / "study.json").write_text(json.dumps({**about, "version": 99}))
    for use in (open_store, lambda folder: create_store(folder, chores.plan())):
        with pytest.raises(DataError, match="are of version 99 and this recveil reads version 1"):
            use(store.folder)
    (store.folder / "study.json").write_text("{")
    with pytest.raises(DataError, match="is not JSON"):
        open_store(store.folder)


def test_a_write_that_fails_leaves_what_was_there(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.write_cell("x", {"records": [1]}, {})

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(OSError, match="No space left"):
        store.write_cell("x", {"records": [2]}, {})
    monkeypatch.undo()
    assert store.read_cell("x")["records"] == [1]
    assert [p.name for p in (store.folder / "timings").iterdir()] == ["x.json"]


def test_a_folder_that_a_refused_run_left_behind_can_be_used_again(tmp_path) -> None:
    raw = {"title": "t", "kind": "attribute", "grid": {"data": ["demo"], "model": ["bprmf"], "target": ["gender"]}}
    plan = Plan.parse(raw, name="p")
    with create_store(tmp_path / "s", plan).hold_lock():
        pass  # the plan was found wrong before anything was described
    assert not (tmp_path / "s" / "study.json").exists()
    create_store(tmp_path / "s", plan)
